-- Accuracy against amount of data: training puzzles and augmentations, test accuracy with its 95% interval, and training accuracy in the last tenth of training.
WITH sizes AS (
    SELECT scale, data, experiment_group
    FROM experiments
    GROUP BY scale, data, experiment_group
    HAVING count(DISTINCT dataset) > 1 AND count(value) = count(*)
),
ending AS (
    SELECT t.run, sum(t.exact_count) / nullif(sum(t.count), 0) AS exact_accuracy, max(t.rows_loaded) AS rows_loaded
    FROM train_metrics AS t
    JOIN runs AS r USING (run)
    WHERE t.dataset IS NULL AND t.split = 'train' AND t.step > 0.9 * r.total_steps
    GROUP BY t.run
)
SELECT
    s.scale,
    s.data,
    s.experiment_group,
    s.experiment,
    s.value,
    s.unit,
    s.series,
    s.dataset,
    p.num_groups AS train_puzzles,
    p.num_examples AS train_rows,
    round(t.rows_loaded / p.num_examples, 3) AS passes,
    s.run,
    s.count AS test_puzzles,
    round(100 * s.exact_accuracy, 2) AS exact_percent,
    round(100 * s.exact_low, 2) AS low,
    round(100 * s.exact_high, 2) AS high,
    round(100 * t.exact_accuracy, 2) AS train_percent
FROM study AS s
LEFT JOIN splits AS p ON p.dataset = s.dataset AND p.split = 'train'
LEFT JOIN ending AS t USING (run)
SEMI JOIN sizes ON sizes.scale = s.scale AND sizes.data = s.data AND sizes.experiment_group = s.experiment_group
WHERE s.evaluation IS NOT NULL
ORDER BY
    s.scale, s.data, s.experiment_group,
    min(s.experiment) OVER (PARTITION BY s.scale, s.data, s.experiment_group, s.series),
    s.value, s.seed;
