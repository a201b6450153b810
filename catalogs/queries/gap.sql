-- Gap between training and test accuracy: the last tenth of training (current weights, augmented puzzles), and a test on training puzzles if there is one.
WITH ending AS (
    SELECT t.run, sum(t.count) AS examples, sum(t.exact_count) / nullif(sum(t.count), 0) AS exact_accuracy
    FROM train_metrics AS t
    JOIN runs AS r USING (run)
    WHERE t.dataset IS NULL AND t.split = 'train' AND t.step > 0.9 * r.total_steps
    GROUP BY t.run
),
known AS (
    SELECT
        run, dataset, step, supervision_steps, max(count) AS examples, max_by(exact_accuracy, count) AS exact_accuracy
    FROM evals
    WHERE split = 'train' AND weights = 'ema' AND as_published
    GROUP BY run, dataset, step, supervision_steps
)
SELECT
    s.scale,
    s.data,
    s.experiment,
    s.varies,
    s.run,
    t.examples AS train_examples,
    round(100 * t.exact_accuracy, 2) AS train_percent,
    round(100 * s.exact_accuracy, 2) AS test_percent,
    round(100 * (t.exact_accuracy - s.exact_accuracy), 2) AS gap_points,
    k.examples AS known_examples,
    round(100 * k.exact_accuracy, 2) AS known_percent,
    round(100 * (k.exact_accuracy - s.exact_accuracy), 2) AS known_gap_points
FROM study AS s
LEFT JOIN ending AS t USING (run)
LEFT JOIN known AS k
    ON k.run = s.run AND k.dataset = s.dataset AND k.step = s.total_steps AND k.supervision_steps = s.supervision_steps
WHERE s.evaluation IS NOT NULL
ORDER BY s.scale, s.data, s.experiment_group, s.value, s.experiment, s.seed;
