-- Speed of every run: examples/s of the steps alone and overall, waiting, memory, hours, and puzzles/s tested (earlier evaluations include compilation).
WITH trained AS (
    SELECT
        run,
        sum(global_batch_size) FILTER (step_s IS NOT NULL) / sum(step_s) AS examples_per_s,
        sum(global_batch_size) / max(seconds) AS overall_examples_per_s,
        sum(data_wait_s) / sum(step_s) AS waiting,
        sum(model_flops) / sum(step_s * peak_flops_per_s) AS used,
        max(device_memory_bytes) AS device_memory_bytes,
        max(seconds) / 3600 AS train_hours
    FROM train_metrics
    WHERE split = 'train' AND dataset IS NULL
    GROUP BY run
),
tested AS (
    SELECT e.run, e.supervision_steps, sum(e.count) / sum(e.seconds) AS puzzles_per_s
    FROM evals AS e
    JOIN runs AS r USING (run)
    WHERE e.split = 'test' AND e.row_limit = 0 AND e.how = 'max_steps'
    GROUP BY e.run, e.supervision_steps
    -- As many supervision steps as training gives where there is such a test.
    QUALIFY row_number() OVER (
        PARTITION BY e.run
        ORDER BY
            e.supervision_steps = CAST(any_value(r.config) ->> '$.model.halt_max_steps' AS INTEGER) DESC NULLS LAST,
            count(*) DESC,
            e.supervision_steps
    ) = 1
)
SELECT
    n.scale,
    n.data,
    n.experiment,
    n.varies,
    run,
    n.parameters,
    round(t.examples_per_s, 1) AS examples_per_s,
    round(t.overall_examples_per_s, 1) AS overall_examples_per_s,
    round(100 * t.waiting, 2) AS waiting_percent,
    round(100 * t.used, 2) AS used_percent,
    t.device_memory_bytes,
    round(t.train_hours, 3) AS train_hours,
    e.supervision_steps,
    round(e.puzzles_per_s, 1) AS test_puzzles_per_s
FROM named_runs AS n
LEFT JOIN trained AS t USING (run)
LEFT JOIN tested AS e USING (run)
ORDER BY n.scale, n.data, n.experiment_group, n.value, n.experiment, run;
