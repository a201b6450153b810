-- Views over results and runs, in the index of results (results.duckdb). Its schema `stored` has the rows of runs,
-- training metrics and evaluations, each with the file it was read from. A query opens the other tables that it reads
-- as <table>_opened, and the dataset catalog as the database `catalog`. Columns with sums or counts have these words in
-- their names; rates have the names of the field.

-- Every run, one row each: from its run folder, or from published results if the folder was deleted.
CREATE VIEW runs AS SELECT * EXCLUDE (host, process, file) FROM stored.runs;

-- Training and validation, one row per step and split. A mixture also has rows for each of its datasets, named in the
-- column dataset; it is NULL in total rows and for other runs.
CREATE VIEW train_metrics AS
SELECT
    * EXCLUDE (file),
    accuracy_sum / nullif(count, 0) AS accuracy,
    exact_count / nullif(count, 0) AS exact_accuracy,
    q_halt_right_count / nullif(count, 0) AS q_halt_accuracy,
    optimal_count / nullif(count, 0) AS optimal_share,
    steps_sum / nullif(count, 0) AS mean_steps,
    lm_loss_sum / nullif(global_batch_size, 0) AS lm_loss,
    -- greatest() ignores NULL: it would make 0 of older files, and of steps at which nothing halted.
    CASE
        WHEN steps_squared_sum / nullif(count, 0) IS NOT NULL
            THEN sqrt(greatest(steps_squared_sum / nullif(count, 0) - mean_steps ** 2, 0))
    END AS steps_std,
    q_halt_loss_sum / nullif(global_batch_size, 0) AS q_halt_loss,
    global_batch_size / nullif(step_s, 0) AS examples_per_s,
    data_wait_s / nullif(step_s, 0) AS data_wait,
    model_flops / nullif(step_s * peak_flops_per_s, 0) AS mfu
FROM stored.train_metrics;

-- Every evaluation, including earlier ones of the same request.
CREATE VIEW all_evals AS
WITH named AS (
    SELECT
        * EXCLUDE (file) REPLACE (
            coalesce(mode, 'max_steps') AS mode,
            coalesce(identifiers, 'own') AS identifiers,
            coalesce(latent_init, 'fixed') AS latent_init
        )
    FROM stored.evals
    -- While an evaluation is replaced there may be two files.
    QUALIFY row_number() OVER (PARTITION BY experiment, run, evaluation ORDER BY created_at DESC NULLS LAST, file DESC) = 1
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
        asked_precision,
        CASE WHEN latent_init <> 'fixed' THEN latent_init || ' initial latents' END,
        nullif(identifiers, 'own') || ' identifiers',
        'rows drawn by seed ' || subset_seed,
        CASE WHEN adapt_weights THEN 'weights and embeddings' WHEN NOT adapt_weights THEN 'embeddings' END
        || ' adapted in ' || concat_ws(', ', printf('%g min', adapt_minutes), printf('%d steps', adapt_steps_asked))
    ) AS how,
    mode = 'max_steps' AND samples IS NULL AND identifiers = 'own' AND adapt_weights IS NULL
    AND asked_precision IS NULL AS as_published,
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
        samples, noise, selection, sample_seed, adapt_minutes, adapt_steps_asked, adapt_weights, asked_precision, latent_init
    ORDER BY created_at DESC, evaluation
) = 1;

-- Mean steps of puzzles: those that halt take as many as they need for it, the others all.
CREATE MACRO mean_halting_steps(halting_by_depth, supervision_steps, n) AS (
    list_sum(list_transform(halting_by_depth, lambda puzzles, i: puzzles * i))
    + supervision_steps * (n - list_sum(halting_by_depth))
) / nullif(n, 0);

-- 95% interval of a share (Wilson 1927); NULL without rows.
CREATE MACRO wilson_low(k, n) AS CASE WHEN n > 0 AND k = 0 THEN 0.0 WHEN n > 0 AND k > 0 THEN greatest(
    (k / n + 1.920729440648 / n - 1.959964 * sqrt(k / n * (1 - k / n) / n + 0.960364720324 / n / n)) / (1 + 3.841458881296 / n), 0
) END;
CREATE MACRO wilson_high(k, n) AS CASE WHEN n > 0 AND k >= 0 THEN least(
    (k / n + 1.920729440648 / n + 1.959964 * sqrt(k / n * (1 - k / n) / n + 0.960364720324 / n / n)) / (1 + 3.841458881296 / n), 1
) END;

-- 95% t interval of a mean share, from the sample standard deviation of n shares; NULL for one.
-- Quantiles from 1 degree of freedom on; beyond 30, an expansion (Cornish and Fisher 1938) that differs by < 0.0001.
CREATE MACRO t_quantile(n) AS CASE
    WHEN n <= 31 THEN [
        12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010, 2.1788, 2.1604, 2.1448,
        2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484,
        2.0452, 2.0423
    ][CAST(n - 1 AS INTEGER)]
    ELSE 1.959964 + 2.372271 / (n - 1) + 2.822499 / (n - 1) ** 2
END;
CREATE MACRO t_low(mean, deviation, n) AS CASE WHEN n > 1 THEN greatest(mean - t_quantile(n) * deviation / sqrt(n), 0) END;
CREATE MACRO t_high(mean, deviation, n) AS CASE WHEN n > 1 THEN least(mean + t_quantile(n) * deviation / sqrt(n), 1) END;

-- Operations of a run's first steps, from those of all its steps; NULL before the end of a curriculum, whose steps differ.
CREATE MACRO flops_until(step, total_steps, training_flops, config) AS CASE
    WHEN step = total_steps THEN training_flops
    WHEN json_extract_string(config, '$.model.curriculum') IS NULL THEN training_flops * step / total_steps
END;

-- Every named experiment at every scale and data, and every point of a sweep; an alias has the identity of the run that
-- it shares.
CREATE VIEW experiments AS SELECT * FROM experiments_opened;

-- Published results of others, each with its protocol (catalogs/claims.csv).
CREATE VIEW claims AS SELECT * FROM claims_opened;

-- Every experiment and point of a sweep with its runs, one row per seed, and the test of each run: last step, averaged weights, all rows
-- of its own dataset, the maximum supervision steps of training, one answer per row. NULL if it was not run or not
-- tested.
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
    x.series,
    -- The dataset that was evaluated; the run of a mixture names all of its datasets.
    CASE WHEN contains(x.dataset, '+') THEN coalesce(e.dataset, x.dataset) ELSE x.dataset END AS dataset,
    x.total_steps,
    r.run,
    r.seed,
    r.state,
    r.global_batch_size,
    -- Time and operations of these steps: a run that was extended has more.
    CASE WHEN coalesce(r.step, 0) <= x.total_steps THEN r.train_seconds END AS train_seconds,
    e.evaluation,
    e.split_digest,
    e.count,
    e.exact_count,
    e.exact_accuracy,
    wilson_low(e.exact_count, e.count) AS exact_low,
    wilson_high(e.exact_count, e.count) AS exact_high,
    e.optimal_share,
    e.cell_accuracy,
    e.q_halt_accuracy,
    list_sum(e.halting_by_depth) / nullif(e.count, 0) AS halted_share,
    mean_halting_steps(e.halting_by_depth, e.supervision_steps, e.count) AS mean_halting_steps,
    e.supervision_steps,
    e.seconds AS test_seconds,
    r.parameters,
    flops_until(x.total_steps, r.total_steps, r.training_flops, r.config) AS training_flops,
    r.evaluation_flops
FROM experiments AS x
LEFT JOIN runs AS r ON r.experiment = x.runs_of AND r.identity = x.identity
LEFT JOIN evals AS e
    ON e.run = r.run
    AND e.step = x.total_steps
    AND e.weights = 'ema'
    AND e.split = 'test'
    AND e.row_limit = 0
    AND e.supervision_steps = x.supervision_steps
    AND list_contains(string_split(r.dataset, '+'), e.dataset)
    AND e.as_published;

-- Every run under each of its names: the experiments and sweeps that share it, or the name that started it.
CREATE VIEW named_runs AS
SELECT
    coalesce(x.experiment, r.experiment) AS experiment,
    coalesce(x.experiment_group, r.experiment_group) AS experiment_group,
    coalesce(x.scale, r.scale) AS scale,
    coalesce(x.data, r.data) AS data,
    x.alias_of,
    x.varies,
    x.quantity,
    x.value,
    x.unit,
    r.run,
    r.identity,
    r.seed,
    r.dataset,
    r.differs,
    r.label,
    r.state,
    r.step,
    r.total_steps,
    r.train_seconds,
    r.global_batch_size,
    r.parameters,
    r.training_flops,
    r.evaluation_flops
FROM runs AS r
LEFT JOIN experiments AS x ON r.experiment = x.runs_of AND r.identity = x.identity;

-- First step at which the validations of a run reach 80%, 85% and 95% of its final accuracy, to within the
-- validation interval. NULL if they never do, and for runs in progress.
CREATE VIEW time_to AS
WITH validations AS (
    SELECT t.run, t.step, t.exact_accuracy, t.seconds, r.total_steps
    FROM train_metrics AS t
    JOIN runs AS r USING (run)
    WHERE t.split = 'validation' AND t.count > 0 AND t.dataset IS NULL
),
goals AS (
    SELECT
        run,
        goal,
        max_by(exact_accuracy, step) FILTER (step >= total_steps) AS final_accuracy,
        coalesce(share, 0.95::DOUBLE * nullif(final_accuracy, 0)) AS target_accuracy
    FROM validations
    CROSS JOIN (VALUES ('80%', 0.8::DOUBLE), ('85%', 0.85::DOUBLE), ('95% of final', NULL)) AS each(goal, share)
    GROUP BY run, goal, share
)
SELECT
    g.run,
    g.goal,
    g.final_accuracy,
    g.target_accuracy,
    min(v.step) AS reached_step,
    min_by(v.seconds, v.step) AS reached_seconds
FROM goals AS g
LEFT JOIN validations AS v ON v.run = g.run AND v.exact_accuracy >= g.target_accuracy
GROUP BY ALL;

-- Tested runs of one scale and data on the same puzzles, with their place on the Pareto front: no other run is as
-- accurate for as little. One row per run and measure of cost, with all names of the run. Compare seconds on one
-- machine only.
CREATE VIEW pareto AS
WITH tested AS (
    SELECT
        scale,
        data,
        split_digest,
        run,
        list(experiment ORDER BY alias_of IS NOT NULL, experiment) AS experiments,
        list(varies ORDER BY alias_of IS NOT NULL, experiment)[1] AS varies,
        any_value(exact_accuracy) AS exact_accuracy,
        any_value(exact_low) AS exact_low,
        any_value(exact_high) AS exact_high,
        any_value(parameters) AS parameters,
        any_value(training_flops) AS training_flops,
        any_value(train_seconds) AS train_seconds
    FROM study
    WHERE evaluation IS NOT NULL
    GROUP BY scale, data, split_digest, run
),
costs AS (
    SELECT
        * EXCLUDE (parameters, training_flops, train_seconds),
        CASE measure
            WHEN 'parameters' THEN parameters
            WHEN 'training_flops' THEN training_flops
            ELSE train_seconds
        END AS cost
    FROM tested
    CROSS JOIN (VALUES ('parameters'), ('training_flops'), ('train_seconds')) AS each(measure)
)
SELECT
    *,
    NOT EXISTS (
        FROM costs AS other
        WHERE other.scale = c.scale AND other.data = c.data AND other.split_digest = c.split_digest
            AND other.measure = c.measure
            AND other.cost <= c.cost AND other.exact_accuracy >= c.exact_accuracy
            AND (other.cost < c.cost OR other.exact_accuracy > c.exact_accuracy)
    ) AS on_front
FROM costs AS c
WHERE cost IS NOT NULL;

-- Every evaluation after each of its supervision steps; evaluations before this table existed are missing.
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

-- Every sampled evaluation with its first 1, 2, ... samples: accuracy of the chosen sample, and of an oracle.
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

-- Accuracy by depth and breadth: every evaluation after each of its supervision steps, and with samples after the
-- requested steps (trm-eval run --steps 1,2,4 --samples 1,2,4), chosen among the first 1, 2, ... samples. One pass
-- computes all of it, so seconds_of is a share of the pass by network calls.
CREATE VIEW scaling AS
WITH drawn AS (
    SELECT
        *,
        unnest(coalesce(scaling_depths, [supervision_steps])) AS depth,
        unnest(coalesce(scaling_exact, [exact_by_samples])) AS exacts,
        unnest(coalesce(scaling_oracle, [oracle_by_samples])) AS oracles
    FROM evals
    WHERE samples IS NOT NULL
),
counts AS (
    SELECT
        * EXCLUDE (exacts, oracles),
        unnest(range(1, len(exacts) + 1)) AS samples_per_row,
        unnest(exacts) AS exacts,
        unnest(oracles) AS oracles
    FROM drawn
    UNION ALL BY NAME
    SELECT
        *,
        unnest(range(1, len(exact_by_depth) + 1)) AS depth,
        1 AS samples_per_row,
        unnest(exact_by_depth) AS exacts,
        unnest(exact_by_depth) AS oracles
    FROM evals
    WHERE samples IS NULL
),
shares AS (
    SELECT *, depth * samples_per_row / (supervision_steps * coalesce(samples, 1)) AS part FROM counts
)
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
    precision,
    latent_init,
    noise,
    selection,
    count,
    depth,
    samples_per_row,
    exacts AS exact_count,
    oracles AS oracle_exact_count,
    exacts / nullif(count, 0) AS exact_accuracy,
    oracles / nullif(count, 0) AS oracle_exact_accuracy,
    wilson_low(exacts, count) AS exact_low,
    wilson_high(exacts, count) AS exact_high,
    network_calls * part AS network_calls,
    flops * part AS flops,
    seconds * part AS seconds_of
FROM shares;

-- Effect of further supervision steps: answers that are right after each step, that were right at some step, and
-- that are no longer right. With samples, all samples count, not the chosen one.
CREATE VIEW retention AS
WITH steps AS (
    SELECT
        *,
        count * coalesce(samples, 1) AS answers,
        unnest(range(1, len(ever_by_depth) + 1)) AS depth,
        unnest(coalesce(solved_by_depth, exact_by_depth)) AS solved,
        unnest(ever_by_depth) AS ever,
        unnest(lost_by_depth) AS lost
    FROM evals
    WHERE ever_by_depth IS NOT NULL
)
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
    precision,
    samples,
    answers,
    depth,
    solved,
    ever,
    lost,
    solved / nullif(answers, 0) AS solved_share,
    ever / nullif(answers, 0) AS ever_share,
    lost / nullif(answers, 0) AS lost_share
FROM steps;

-- Every prediction of all_evals, one row per example. Only parts named by a finished evaluation count; parts of a
-- killed writer do not.
CREATE VIEW all_predictions AS
SELECT p.*, e.experiment, e.run, e.dataset, e.split
FROM predictions_opened AS p
JOIN all_evals AS e ON e.evaluation = p.evaluation;

-- Every prediction of evals, one row per example.
CREATE VIEW predictions AS
SELECT p.* FROM all_predictions AS p SEMI JOIN evals AS e ON p.evaluation = e.evaluation;

-- Candidates of every test input of ARC, best first, for every evaluation, including earlier ones of the same
-- request.
CREATE VIEW all_votes AS
SELECT v.*, e.experiment, e.run, e.dataset, e.split
FROM votes_opened AS v
JOIN all_evals AS e ON e.evaluation = v.evaluation;

-- Candidates of the newest evaluation of each request, best first.
CREATE VIEW votes AS
SELECT v.* FROM all_votes AS v SEMI JOIN evals AS e ON v.evaluation = e.evaluation;

-- Answers decoded after every cycle of every supervision step, for the rows of trm-eval run --traces N.
CREATE VIEW all_traces AS
SELECT t.*, e.experiment, e.run, e.dataset, e.split
FROM traces_opened AS t
JOIN all_evals AS e ON e.evaluation = t.evaluation;

-- Answers decoded after every cycle, of the newest evaluation of each request.
CREATE VIEW traces AS
SELECT t.* FROM all_traces AS t SEMI JOIN evals AS e ON t.evaluation = e.evaluation;

-- Candidates of several evaluations together, in the order of the arguments.
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

-- Share of tasks solved by the first K candidates: the mean over a task's test inputs, then over tasks. Tasks
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

-- Every prediction with the test that it belongs to.
CREATE VIEW tested_predictions AS
SELECT
    p.*,
    e.step,
    e.weights,
    e.split_digest,
    e.row_limit,
    e.supervision_steps,
    e.how,
    e.rated_count
FROM predictions AS p
JOIN evals AS e USING (evaluation);

-- Every prediction with the rating of its puzzle at evaluation time; for earlier evaluations, the rating in the
-- dataset catalog. Reads nothing else of the catalog, and is faster than predicted_puzzles.
CREATE VIEW rated_predictions AS
SELECT p.* EXCLUDE (rating, split_digest, rated_count), coalesce(p.rating, q.rating) AS rating
FROM tested_predictions AS p
LEFT JOIN catalog.splits AS s
    ON s.dataset = p.dataset AND s.split = p.split AND s.digest = p.split_digest AND p.rated_count IS NULL
LEFT JOIN (
    SELECT dataset, split, group_index, rating
    FROM catalog.puzzles AS z
    SEMI JOIN (FROM evals WHERE rated_count IS NULL) AS o ON o.dataset = z.dataset AND o.split = z.split
) AS q ON q.dataset = s.dataset AND q.split = s.split AND q.group_index = p.group_index;

-- Every prediction with the catalog's properties of its puzzle. The catalog's split must have the evaluated rows: if
-- the dataset was deleted or rebuilt with other rows, clues are NULL, and the rating too for earlier evaluations.
CREATE VIEW predicted_puzzles AS
SELECT
    p.* EXCLUDE (rating, split_digest, rated_count),
    coalesce(p.rating, q.rating) AS rating,
    q.rating_source,
    q.clues,
    q.path_length,
    q.walls,
    q.task,
    q.source_file,
    q.source_row
FROM tested_predictions AS p
LEFT JOIN catalog.splits AS s ON s.dataset = p.dataset AND s.split = p.split AND s.digest = p.split_digest
LEFT JOIN catalog.puzzles AS q
    ON q.dataset = s.dataset AND q.split = s.split AND q.group_index = p.group_index;

-- Tokens of every evaluated split that is unchanged, one row per example.
CREATE VIEW puzzle_tokens AS SELECT * FROM puzzle_tokens_opened;

-- Every cell of every prediction, with the cells of its puzzle and its solution, which are NULL if the split was
-- deleted or changed. The view is long: filter by run or evaluation.
CREATE VIEW predicted_cells AS
SELECT
    *,
    cell // grid_columns AS grid_row,
    cell % grid_columns AS grid_column,
    input = label AS given,
    label <> 0 AND predicted <> label AS wrong
FROM (
    SELECT
        p.experiment,
        p.run,
        p.evaluation,
        p.step,
        p.weights,
        p.dataset,
        p.split,
        p.how,
        p.row,
        p.group_index,
        p.augmentation,
        p.rating,
        p.exact,
        t.grid_columns,
        unnest(range(len(p.prediction))) AS cell,
        unnest(t.inputs) AS input,
        unnest(t.labels) AS label,
        unnest(p.prediction) AS predicted
    FROM tested_predictions AS p
    LEFT JOIN puzzle_tokens AS t
        ON t.dataset = p.dataset AND t.split = p.split AND t.split_digest = p.split_digest AND t.row = p.row
);

-- Pairs of tested runs of one group, scale, data and seed on the same puzzles, under the names of the group.
CREATE VIEW compared_runs AS
SELECT
    a.scale,
    a.data,
    a.experiment_group,
    a.seed,
    a.experiment AS experiment_a,
    b.experiment AS experiment_b,
    a.varies AS varies_a,
    b.varies AS varies_b,
    a.run AS run_a,
    b.run AS run_b,
    a.evaluation AS evaluation_a,
    b.evaluation AS evaluation_b,
    a.count
FROM study AS a
JOIN study AS b
    ON b.scale = a.scale AND b.data = a.data AND b.experiment_group = a.experiment_group AND b.seed = a.seed
    AND b.split_digest = a.split_digest
WHERE a.run <> b.run AND (coalesce(a.value, 0), a.experiment) < (coalesce(b.value, 0), b.experiment);

-- Every puzzle that exactly one of two runs solved, for any two newest tests on the same rows with the same
-- supervision steps. Each pair occurs in both orders, so that WHERE run_a = '...' AND run_b = '...' finds it.
CREATE VIEW disagreements AS
WITH tests AS (
    SELECT evaluation, run, dataset, split, split_digest, supervision_steps
    FROM evals
    WHERE weights = 'ema' AND row_limit = 0 AND how = 'max_steps'
    QUALIFY row_number() OVER (
        PARTITION BY run, dataset, split, supervision_steps ORDER BY step DESC, created_at DESC, evaluation
    ) = 1
),
answers AS (
    SELECT t.*, p.row, p.group_index, p.augmentation, p.exact, p.wrong_cells, p.halt_step
    FROM predictions AS p
    JOIN tests AS t ON p.evaluation = t.evaluation
)
SELECT
    a.run AS run_a,
    b.run AS run_b,
    a.evaluation AS evaluation_a,
    b.evaluation AS evaluation_b,
    a.dataset,
    a.split,
    a.supervision_steps,
    a.row,
    a.group_index,
    a.augmentation,
    a.exact AS exact_a,
    b.exact AS exact_b,
    a.wrong_cells AS wrong_cells_a,
    b.wrong_cells AS wrong_cells_b,
    a.halt_step AS halt_step_a,
    b.halt_step AS halt_step_b,
    q.rating,
    q.clues,
    q.path_length
FROM answers AS a
JOIN answers AS b
    ON b.row = a.row AND b.split = a.split AND b.split_digest = a.split_digest
    AND b.supervision_steps = a.supervision_steps AND b.run <> a.run AND b.exact <> a.exact
LEFT JOIN catalog.splits AS s ON s.dataset = a.dataset AND s.split = a.split AND s.digest = a.split_digest
LEFT JOIN catalog.puzzles AS q
    ON q.dataset = s.dataset AND q.split = s.split AND q.group_index = a.group_index;

-- Tables of the dataset catalog.
CREATE VIEW datasets AS SELECT * FROM catalog.datasets;
CREATE VIEW sources AS SELECT * FROM catalog.sources;
CREATE VIEW splits AS SELECT * FROM catalog.splits;
CREATE VIEW shards AS SELECT * FROM catalog.shards;
CREATE VIEW puzzles AS SELECT * FROM catalog.puzzles;
CREATE VIEW augmentations AS SELECT * FROM catalog.augmentations;
CREATE VIEW examples AS SELECT * FROM catalog.examples;
CREATE VIEW identifiers AS SELECT * FROM catalog.identifiers;
CREATE VIEW rejects AS SELECT * FROM catalog.rejects;
