-- Every experiment over its seeds: mean and spread of exact accuracy, with the 95% t interval of the mean from two seeds on.
SELECT
    scale,
    data,
    experiment,
    alias_of,
    varies,
    count(*) AS seeds,
    round(100 * avg(exact_accuracy), 2) AS mean_percent,
    round(100 * t_low(avg(exact_accuracy), stddev_samp(exact_accuracy), count(*)), 2) AS low,
    round(100 * t_high(avg(exact_accuracy), stddev_samp(exact_accuracy), count(*)), 2) AS high,
    round(100 * stddev_samp(exact_accuracy), 2) AS std_points,
    round(100 * min(exact_accuracy), 2) AS least_percent,
    round(100 * max(exact_accuracy), 2) AS most_percent
FROM study
WHERE evaluation IS NOT NULL
GROUP BY scale, data, experiment_group, series, value, experiment, alias_of, varies, split_digest
ORDER BY
    scale, data, experiment_group,
    min(experiment) OVER (PARTITION BY scale, data, experiment_group, series),
    value, experiment;
