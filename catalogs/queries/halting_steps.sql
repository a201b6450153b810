-- Supervision steps until halting: mean and spread of the first positive halting logit in the test, rows without one, and steps spent in the last tenth of training.
WITH tested AS (
    SELECT
        evaluation,
        count(*) AS puzzles,
        count_if(halt_step IS NULL) AS never,
        avg(halt_step) AS mean_steps,
        stddev_samp(halt_step) AS steps_std,
        median(halt_step) AS median_steps
    FROM predictions
    GROUP BY evaluation
),
ending AS (
    SELECT
        t.run,
        sum(t.steps_sum) / nullif(sum(t.count), 0) AS mean_steps,
        sum(t.steps_squared_sum) / nullif(sum(t.count), 0) - (sum(t.steps_sum) / nullif(sum(t.count), 0)) ** 2
            AS steps_variance
    FROM train_metrics AS t
    JOIN runs AS r USING (run)
    WHERE t.dataset IS NULL AND t.split = 'train' AND t.step > 0.9 * r.total_steps
    GROUP BY t.run
)
SELECT
    s.scale,
    s.data,
    s.experiment,
    s.varies,
    s.run,
    s.supervision_steps AS steps_at_most,
    e.puzzles,
    e.never,
    round(e.mean_steps, 2) AS mean_halt_step,
    round(e.steps_std, 2) AS halt_step_std,
    e.median_steps AS median_halt_step,
    round(t.mean_steps, 2) AS train_mean_steps,
    round(sqrt(if(t.steps_variance < 0, 0, t.steps_variance)), 2) AS train_steps_std
FROM study AS s
JOIN tested AS e USING (evaluation)
LEFT JOIN ending AS t ON t.run = s.run
ORDER BY s.scale, s.data, s.experiment_group, s.value, s.experiment, s.seed;
