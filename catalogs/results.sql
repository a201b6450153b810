-- Views over results and runs. trm-eval registers the Parquet files of a table as <table>_files (with the columns
-- experiment and run), the runs as they are now as runs_live and train_metrics_live, and the dataset catalog as the
-- schema `catalog`, then runs this. Columns that are sums or counts say so; rates have the names of the field.

-- A run's folder knows more than what was published of it; results of runs whose folder is gone stay.
CREATE VIEW runs AS
SELECT * FROM runs_live
UNION ALL BY NAME
SELECT * FROM runs_files AS f ANTI JOIN runs_live AS l ON f.run = l.run;

-- Every step once: from the run's own parts, or from what was published where the run is gone. Files of format 1
-- called the sums by the names of the rates.
CREATE VIEW train_metrics AS
WITH rows_of AS (
    SELECT * FROM train_metrics_live
    UNION ALL BY NAME
    SELECT * FROM train_metrics_files AS f ANTI JOIN runs_live AS l ON f.run = l.run
),
named AS (
    SELECT
        experiment,
        run,
        step,
        split,
        rows_loaded,
        global_batch_size,
        count,
        coalesce(accuracy_sum, accuracy) AS accuracy_sum,
        coalesce(exact_count, exact_accuracy) AS exact_count,
        coalesce(q_halt_right_count, q_halt_accuracy) AS q_halt_right_count,
        coalesce(steps_sum, steps) AS steps_sum,
        steps_squared_sum,
        coalesce(lm_loss_sum, lm_loss) AS lm_loss_sum,
        coalesce(q_halt_loss_sum, q_halt_loss) AS q_halt_loss_sum,
        lr,
        seconds,
        grad_norm,
        update_norm,
        loss_scale,
        skipped_count,
        step_s,
        data_wait_s,
        model_flops,
        peak_flops_per_s,
        device_memory_bytes
    FROM rows_of
)
SELECT
    *,
    accuracy_sum / nullif(count, 0) AS accuracy,
    exact_count / nullif(count, 0) AS exact_accuracy,
    q_halt_right_count / nullif(count, 0) AS q_halt_accuracy,
    steps_sum / nullif(count, 0) AS mean_steps,
    lm_loss_sum / nullif(global_batch_size, 0) AS lm_loss,
    sqrt(greatest(steps_squared_sum / nullif(count, 0) - mean_steps ** 2, 0)) AS steps_std,
    q_halt_loss_sum / nullif(global_batch_size, 0) AS q_halt_loss,
    global_batch_size / nullif(step_s, 0) AS examples_per_s,
    data_wait_s / nullif(step_s, 0) AS data_wait,
    model_flops / nullif(step_s * peak_flops_per_s, 0) AS mfu
FROM named;

-- Every evaluation there is, older ones of the same request too.
CREATE VIEW all_evals AS
WITH named AS (
    SELECT
        experiment,
        run,
        evaluation,
        step,
        weights,
        dataset,
        split,
        split_digest,
        coalesce(row_limit, "limit") AS row_limit,
        supervision_steps,
        count,
        coalesce(exact_count, exact) AS exact_count,
        cells,
        wrong_cells,
        coalesce(q_halt_right_count, q_halt_right) AS q_halt_right_count,
        coalesce(lm_loss_sum, lm_loss) AS lm_loss_sum,
        seconds,
        evaluation_version,
        code_version,
        created_at,
        parts,
        part_digests,
        exact_by_depth,
        wrong_cells_by_depth,
        halting_by_depth,
        halting_exact_by_depth,
        compile_seconds,
        coalesce(mode, 'max_steps') AS mode,
        subset_seed,
        coalesce(identifiers, 'own') AS identifiers,
        spent_steps,
        samples,
        noise,
        selection,
        sample_seed,
        exact_by_samples,
        oracle_by_samples,
        vote_parts,
        vote_digests,
        given_kept_count,
        valid_count,
        optimal_count
    FROM evals_files
)
SELECT
    *,
    exact_count / nullif(count, 0) AS exact_accuracy,
    1 - wrong_cells / nullif(cells, 0) AS cell_accuracy,
    q_halt_right_count / nullif(count, 0) AS q_halt_accuracy,
    lm_loss_sum / nullif(count, 0) AS lm_loss,
    concat_ws(
        ', ',
        CASE WHEN samples IS NULL THEN mode ELSE printf('%d samples, noise %g, %s', samples, noise, selection) END,
        'seed ' || nullif(sample_seed, 0),
        nullif(identifiers, 'own') || ' identifiers',
        'rows drawn by seed ' || subset_seed
    ) AS how,
    given_kept_count / nullif(count, 0) AS given_kept_share,
    valid_count / nullif(count, 0) AS valid_share,
    optimal_count / nullif(count, 0) AS optimal_share
FROM named;

-- The newest evaluation of each request.
CREATE VIEW evals AS
SELECT * FROM all_evals
QUALIFY row_number() OVER (
    PARTITION BY
        run, step, weights, dataset, split, split_digest, row_limit, subset_seed, supervision_steps, mode, identifiers,
        samples, noise, selection, sample_seed
    ORDER BY created_at DESC, evaluation
) = 1;

-- 95% interval of a share (Wilson 1927); NULL of nothing.
CREATE MACRO wilson_low(k, n) AS CASE WHEN n > 0 AND k >= 0 THEN greatest(
    (k / n + 1.920729440648 / n - 1.959964 * sqrt(k / n * (1 - k / n) / n + 0.960364720324 / n / n)) / (1 + 3.841458881296 / n), 0
) END;
CREATE MACRO wilson_high(k, n) AS CASE WHEN n > 0 AND k >= 0 THEN least(
    (k / n + 1.920729440648 / n + 1.959964 * sqrt(k / n * (1 - k / n) / n + 0.960364720324 / n / n)) / (1 + 3.841458881296 / n), 1
) END;

-- Every named experiment at every scale and data; an alias has the identity of the run that it shares.
CREATE VIEW experiments AS SELECT * FROM experiments_live;

-- Every experiment with its runs, a row a seed, and the test of each: the experiment's last step, averaged weights, all
-- rows of its own dataset, as many supervision steps as training gives at most, one answer a row. NULL where it is not
-- run, or not tested.
CREATE VIEW study AS
SELECT
    x.experiment,
    x.experiment_group,
    x.scale,
    x.data,
    x.alias_of,
    x.varies,
    x.quantity,
    x.value,
    x.unit,
    x.dataset,
    x.total_steps,
    r.run,
    r.seed,
    r.state,
    r.global_batch_size,
    r.train_seconds,
    e.evaluation,
    e.split_digest,
    e.count,
    e.exact_count,
    e.exact_accuracy,
    wilson_low(e.exact_count, e.count) AS exact_low,
    wilson_high(e.exact_count, e.count) AS exact_high,
    e.cell_accuracy,
    e.q_halt_accuracy,
    e.supervision_steps,
    e.seconds AS test_seconds
FROM experiments AS x
LEFT JOIN runs AS r ON r.experiment = x.runs_of AND r.identity = x.identity
LEFT JOIN evals AS e
    ON e.run = r.run
    AND e.step = x.total_steps
    AND e.weights = 'ema'
    AND e.split = 'test'
    AND e.row_limit = 0
    AND e.supervision_steps = x.supervision_steps
    AND e.dataset = r.dataset
    AND e.mode = 'max_steps'
    AND e.identifiers = 'own'
    AND e.samples IS NULL;

-- Every evaluation after each of its supervision steps; nothing of those that are older than it.
CREATE VIEW depth AS
WITH steps AS (
    SELECT
        experiment,
        run,
        evaluation,
        step,
        weights,
        dataset,
        split,
        row_limit,
        supervision_steps,
        count,
        cells,
        unnest(range(1, len(exact_by_depth) + 1)) AS depth,
        unnest(exact_by_depth) AS exact_count,
        unnest(wrong_cells_by_depth) AS wrong_cells,
        unnest(halting_by_depth) AS halting_count,
        unnest(halting_exact_by_depth) AS halting_exact_count
    FROM evals
)
SELECT
    *,
    exact_count / nullif(count, 0) AS exact_accuracy,
    1 - wrong_cells / nullif(cells, 0) AS cell_accuracy,
    sum(halting_count) OVER (PARTITION BY evaluation ORDER BY depth) AS halted_count
FROM steps;

-- Every sampled evaluation with its first 1, 2, ... samples: what is chosen among them, and whether any is right.
CREATE VIEW samples AS
WITH counts AS (
    SELECT
        experiment,
        run,
        evaluation,
        step,
        weights,
        dataset,
        split,
        row_limit,
        subset_seed,
        supervision_steps,
        noise,
        selection,
        sample_seed,
        count,
        unnest(range(1, len(exact_by_samples) + 1)) AS samples,
        unnest(exact_by_samples) AS exact_count,
        unnest(oracle_by_samples) AS oracle_exact_count
    FROM evals
)
SELECT
    *,
    exact_count / nullif(count, 0) AS exact_accuracy,
    oracle_exact_count / nullif(count, 0) AS oracle_exact_accuracy,
    wilson_low(exact_count, count) AS exact_low,
    wilson_high(exact_count, count) AS exact_high
FROM counts;

-- Only what a finished evaluation names: parts of a writer that died, or of an older division, do not show.
CREATE VIEW all_predictions AS
SELECT p.*
FROM predictions_files AS p
SEMI JOIN (SELECT evaluation, unnest(parts) AS part FROM all_evals) AS named
    ON p.evaluation = named.evaluation AND p.part = named.part;

CREATE VIEW predictions AS
SELECT p.* FROM all_predictions AS p SEMI JOIN evals AS e ON p.evaluation = e.evaluation;

-- The candidates of every test input of ARC, likewise.
CREATE VIEW all_votes AS
SELECT v.*
FROM votes_files AS v
SEMI JOIN (SELECT evaluation, unnest(vote_parts) AS part FROM all_evals) AS named
    ON v.evaluation = named.evaluation AND v.part = named.part;

CREATE VIEW votes AS
SELECT v.* FROM all_votes AS v SEMI JOIN evals AS e ON v.evaluation = e.evaluation;

-- The candidates of several evaluations together, which are named in the order in which they are seen.
CREATE MACRO pooled_votes(evaluations) AS TABLE
WITH pooled AS (
    SELECT
        task,
        test_index,
        rows,
        columns,
        grid,
        CAST(sum(votes) AS INTEGER) AS votes,
        sum(votes * mean_q) / sum(votes) AS mean_q,
        bool_or(correct) AS correct,
        min({evaluation: list_position(evaluations, evaluation), row: first_row, rank: rank}) AS first_seen
    FROM all_votes
    WHERE list_contains(evaluations, evaluation)
    GROUP BY task, test_index, rows, columns, grid
)
SELECT
    * EXCLUDE (first_seen),
    row_number() OVER (
        PARTITION BY task, test_index ORDER BY votes DESC, mean_q DESC, first_seen
    ) AS rank
FROM pooled;

-- Share of tasks solved by the first K candidates: the mean over a task's test inputs, then over the tasks. Tasks
-- without solutions are not counted.
CREATE VIEW pass_at_k AS
WITH inputs AS (
    SELECT evaluation, task, test_index, min(rank) FILTER (WHERE correct) AS right_rank, bool_and(correct IS NOT NULL) AS scored
    FROM votes
    GROUP BY evaluation, task, test_index
),
tasks AS (
    SELECT evaluation, task, k, count(*) AS test_inputs, avg(CASE WHEN right_rank <= k THEN 1 ELSE 0 END) AS passed
    FROM inputs, (VALUES (1), (2), (5), (10), (100), (1000)) AS reported (k)
    GROUP BY evaluation, task, k
    HAVING bool_and(scored)
)
SELECT
    e.experiment,
    e.run,
    e.evaluation,
    e.step,
    e.weights,
    e.dataset,
    e.split,
    e.row_limit,
    e.supervision_steps,
    t.k,
    count(*) AS tasks,
    sum(t.test_inputs) AS test_inputs,
    avg(t.passed) AS pass_at_k
FROM tasks AS t
JOIN evals AS e USING (evaluation)
GROUP BY ALL;

-- Every prediction with what the dataset catalog knows of its puzzle. The catalog's split must have the very rows
-- that were evaluated: where a dataset was deleted, or rebuilt with others, rating and clues are NULL.
CREATE VIEW predicted_puzzles AS
SELECT
    p.*,
    e.step,
    e.weights,
    e.dataset,
    e.split,
    e.row_limit,
    e.supervision_steps,
    e.how,
    q.rating,
    q.rating_source,
    q.clues,
    q.source_file,
    q.source_row
FROM predictions AS p
JOIN evals AS e USING (evaluation)
LEFT JOIN catalog.splits AS s ON s.dataset = e.dataset AND s.split = e.split AND s.digest = e.split_digest
LEFT JOIN catalog.puzzles AS q
    ON q.dataset = s.dataset AND q.split = s.split AND q.group_index = p.group_index;
