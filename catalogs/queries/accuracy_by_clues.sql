-- Exact accuracy by number of given cells (Sudoku), with its 95% interval.
SELECT
    run,
    step,
    weights,
    dataset,
    split,
    row_limit,
    supervision_steps,
    any_value(how) AS how,
    clues,
    count(*) AS puzzles,
    count_if(exact) AS exact,
    round(100.0 * count_if(exact) / count(*), 2) AS exact_percent,
    round(100 * wilson_low(count_if(exact), count(*)), 2) AS low,
    round(100 * wilson_high(count_if(exact), count(*)), 2) AS high,
    evaluation
FROM predicted_puzzles
WHERE clues IS NOT NULL AND exact IS NOT NULL
GROUP BY run, step, weights, dataset, split, row_limit, supervision_steps, clues, evaluation
ORDER BY run, step, weights, split, evaluation, clues;
