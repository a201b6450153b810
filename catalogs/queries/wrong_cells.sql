-- Wrong answers by number of wrong cells, for puzzles with a solution.
SELECT
    run,
    step,
    weights,
    dataset,
    split,
    row_limit,
    supervision_steps,
    any_value(how) AS how,
    wrong_cells,
    count(*) AS puzzles,
    round(100.0 * count(*) / sum(count(*)) OVER (PARTITION BY evaluation), 2) AS percent,
    evaluation
FROM tested_predictions
WHERE cells > 0
GROUP BY run, step, weights, dataset, split, row_limit, supervision_steps, wrong_cells, evaluation
ORDER BY run, step, weights, split, evaluation, wrong_cells;
