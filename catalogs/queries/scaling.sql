-- Accuracy by depth and breadth: 1, 2, 4, ... supervision steps and samples, and their cost.
SELECT
    run,
    step,
    dataset,
    split,
    precision,
    selection,
    depth,
    samples_per_row AS samples,
    round(100 * exact_accuracy, 2) AS exact_percent,
    round(100 * oracle_exact_accuracy, 2) AS any_of_percent,
    network_calls,
    flops,
    seconds_of,
    evaluation
FROM scaling
QUALIFY
    (depth & (depth - 1) = 0 OR depth = max(depth) OVER (PARTITION BY evaluation))
    AND (
        samples_per_row & (samples_per_row - 1) = 0
        OR samples_per_row = max(samples_per_row) OVER (PARTITION BY evaluation)
    )
ORDER BY run, step, split, evaluation, depth, samples_per_row;
