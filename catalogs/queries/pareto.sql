-- Pareto front of tested runs of one scale and data: accuracy against parameters, operations and time, cheapest first (compare seconds on one machine only).
SELECT
    scale,
    data,
    measure,
    cost,
    round(100 * exact_accuracy, 2) AS exact_percent,
    round(100 * exact_low, 2) AS low,
    round(100 * exact_high, 2) AS high,
    varies,
    array_to_string(experiments, ', ') AS experiments,
    run
FROM pareto
WHERE on_front
ORDER BY scale, data, split_digest, measure, cost, run;
