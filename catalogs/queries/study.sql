-- Every tested experiment with its 95% interval, by scale, data and group; aliases show the run they share.
SELECT
    scale,
    data,
    experiment,
    varies,
    run,
    count AS puzzles,
    round(100 * exact_accuracy, 2) AS exact_percent,
    round(100 * exact_low, 2) AS low,
    round(100 * exact_high, 2) AS high,
    round(train_seconds) AS train_s
FROM study
WHERE evaluation IS NOT NULL
ORDER BY
    scale, data, experiment_group,
    min(experiment) OVER (PARTITION BY scale, data, experiment_group, series),
    value, experiment, seed;
