-- Accuracy after each supervision step, and accuracy with halting at the first positive halting logit up to that step.
SELECT
    run,
    step,
    weights,
    dataset,
    split,
    row_limit,
    supervision_steps,
    depth,
    round(100 * exact_accuracy, 2) AS exact_percent,
    round(100 * cell_accuracy, 2) AS cells_percent,
    halted_count AS halted,
    sum(halting_exact_count) OVER (PARTITION BY evaluation ORDER BY depth) AS halted_exact,
    evaluation
FROM depth
ORDER BY run, step, weights, split, evaluation, depth;
