-- Cost of accuracy: parameters, operations and hours of every tested experiment, and points of exact accuracy per unit of each.
SELECT
    scale,
    data,
    experiment,
    varies,
    run,
    round(100 * exact_accuracy, 2) AS exact_percent,
    parameters,
    training_flops,
    round(train_seconds / 3600, 3) AS train_hours,
    round(100 * exact_accuracy / (parameters / 1e6), 2) AS points_per_million_parameters,
    round(100 * exact_accuracy / (training_flops / 1e15), 2) AS points_per_petaflop,
    round(100 * exact_accuracy / (train_seconds / 3600), 2) AS points_per_hour
FROM study
WHERE evaluation IS NOT NULL
ORDER BY scale, data, experiment_group, value, experiment, seed;
