-- ARC: share of tasks whose right grids are among the first K candidates by votes over their augmentations.
SELECT
    run,
    step,
    weights,
    dataset,
    split,
    row_limit,
    supervision_steps,
    k,
    tasks,
    test_inputs,
    round(100 * pass_at_k, 2) AS pass_percent,
    evaluation
FROM pass_at_k
ORDER BY run, step, weights, split, evaluation, k;
