-- Every experiment over its seeds: mean and spread of exact accuracy; trm_eval.statistics.across_seeds adds the interval, from two seeds on.
SELECT
    scale,
    data,
    experiment,
    alias_of,
    varies,
    count(*) AS seeds,
    round(100 * avg(exact_accuracy), 2) AS mean_percent,
    round(100 * stddev_samp(exact_accuracy), 2) AS std_points,
    round(100 * min(exact_accuracy), 2) AS least_percent,
    round(100 * max(exact_accuracy), 2) AS most_percent
FROM study
WHERE evaluation IS NOT NULL
GROUP BY scale, data, experiment_group, value, experiment, alias_of, varies, split_digest
ORDER BY scale, data, experiment_group, value, experiment;
