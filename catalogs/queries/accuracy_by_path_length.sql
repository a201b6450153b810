-- Exact accuracy by length of the shortest path (mazes), in bins of ten steps, with its 95% interval.
SELECT
    run,
    step,
    weights,
    dataset,
    split,
    row_limit,
    supervision_steps,
    any_value(how) AS how,
    10 * (path_length // 10) AS path_from,
    10 * (path_length // 10) + 9 AS path_to,
    count(*) AS puzzles,
    count_if(exact) AS exact,
    round(100.0 * count_if(exact) / count(*), 2) AS exact_percent,
    round(100 * wilson_low(count_if(exact), count(*)), 2) AS low,
    round(100 * wilson_high(count_if(exact), count(*)), 2) AS high,
    evaluation
FROM predicted_puzzles
WHERE path_length IS NOT NULL AND exact IS NOT NULL
GROUP BY run, step, weights, dataset, split, row_limit, supervision_steps, path_from, path_to, evaluation
ORDER BY run, step, weights, split, evaluation, path_from;
