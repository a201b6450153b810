-- Each pair of runs of a group on the same puzzles: puzzles solved by one of them only; trm-eval compare adds p-values.
SELECT
    c.scale,
    c.data,
    c.experiment_group,
    c.experiment_a,
    c.experiment_b,
    c.varies_a,
    c.varies_b,
    c.seed,
    count(*) AS puzzles,
    count_if(a.exact AND b.exact) AS both_right,
    count_if(a.exact AND NOT b.exact) AS only_a,
    count_if(b.exact AND NOT a.exact) AS only_b,
    round(100.0 * (only_b - only_a) / puzzles, 2) AS b_better_points,
    c.run_a,
    c.run_b
FROM compared_runs AS c
JOIN predictions AS a ON a.evaluation = c.evaluation_a AND a.exact IS NOT NULL
JOIN predictions AS b ON b.evaluation = c.evaluation_b AND b.row = a.row
GROUP BY ALL
HAVING puzzles = any_value(c.count)
ORDER BY c.scale, c.data, c.experiment_group, c.seed, c.experiment_a, c.experiment_b;
