-- Use of every dataset, by scale and data: runs trained on it, rows read, epochs, and the last test of each run.
WITH taken AS (
    SELECT run, max(rows_loaded) AS rows_loaded FROM train_metrics WHERE split = 'train' AND dataset IS NULL GROUP BY run
),
tested AS (
    SELECT e.run, e.dataset, e.count AS puzzles, e.exact_accuracy
    FROM evals AS e
    JOIN runs AS r USING (run)
    WHERE e.split = 'test' AND e.weights = 'ema' AND e.row_limit = 0 AND e.how = 'max_steps'
    -- Of the last step, and with as many supervision steps as training gives where there is such a test.
    QUALIFY row_number() OVER (
        PARTITION BY e.run, e.dataset
        ORDER BY
            e.step DESC,
            e.supervision_steps = CAST(r.config ->> '$.model.halt_max_steps' AS INTEGER) DESC NULLS LAST,
            e.created_at DESC
    ) = 1
),
used AS (
    SELECT
        r.dataset,
        r.scale,
        r.data,
        count(*) AS runs,
        sum(t.rows_loaded) AS rows_taken,
        count(e.run) AS tested_runs,
        max(e.puzzles) AS test_puzzles,
        min(e.exact_accuracy) AS least,
        max(e.exact_accuracy) AS most
    FROM runs AS r
    LEFT JOIN taken AS t USING (run)
    LEFT JOIN tested AS e USING (run, dataset)
    GROUP BY r.dataset, r.scale, r.data
)
SELECT
    dataset,
    u.scale,
    u.data,
    p.num_groups AS train_puzzles,
    p.num_examples AS train_rows,
    coalesce(u.runs, 0) AS runs,
    u.rows_taken,
    round(u.rows_taken / p.num_examples / u.runs, 3) AS passes_per_run,
    coalesce(u.tested_runs, 0) AS tested_runs,
    u.test_puzzles,
    round(100 * u.least, 2) AS least_exact_percent,
    round(100 * u.most, 2) AS most_exact_percent
FROM (SELECT * FROM splits WHERE split = 'train') AS p
FULL JOIN used AS u USING (dataset)
ORDER BY dataset, u.scale, u.data;
