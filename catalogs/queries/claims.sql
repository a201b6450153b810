-- Published results beside our newest evaluations of the same kind of puzzle: same protocol, or the differences.
-- Published data are known by their content digest (catalogs/datasets), never by the name of a dataset.
WITH published (claimed_on, digest) AS (
    VALUES
        ('arc-agi-1', 'd4c86eb5d393c0bb52ec457ac0cfe7fe3a2793486d236d832bed3cda12827908'),
        ('arc-agi-2', '88a9df82a861205ec8dbce5b987a74044d39552e4e404a2629a71e8f8e2c54eb')
),
tested AS (
    SELECT
        e.*,
        p.claimed_on AS published_data,
        coalesce(d.kind, regexp_extract(e.dataset, '^(sudoku|maze|arc)')) AS kind,
        t.num_groups AS training_puzzles
    FROM evals AS e
    JOIN runs AS r ON r.run = e.run
    LEFT JOIN splits AS s ON s.dataset = e.dataset AND s.split = e.split AND s.digest = e.split_digest
    LEFT JOIN datasets AS d ON d.dataset = s.dataset
    -- A run of other data than it is tested on has training puzzles of its own.
    LEFT JOIN published AS p ON p.digest = d.digest AND p.digest = r.content_digest
    LEFT JOIN splits AS t ON t.dataset = d.dataset AND t.split = 'train' AND d.digest = r.content_digest
    WHERE e.row_limit = 0 AND e.split = 'test' AND e.weights = 'ema'
),
ours AS (
    SELECT
        *,
        unnest([
            {metric: 'exact_accuracy', value: 100 * exact_accuracy},
            {metric: 'optimal_accuracy', value: 100 * optimal_share}
        ], recursive := true),
        coalesce(samples, 1) AS breadth,
        coalesce(selection, 'last') AS selected_by
    FROM tested
    UNION ALL BY NAME
    SELECT e.*, 'pass@' || v.k AS metric, 100 * v.pass_at_k AS value, NULL AS breadth, 'votes' AS selected_by
    FROM tested AS e
    JOIN pass_at_k AS v ON v.evaluation = e.evaluation
),
compared AS (
    SELECT
        o.run,
        o.step,
        c.work,
        c.source,
        c.stated,
        c.dataset AS claimed_on,
        c.metric,
        c.value AS claimed_percent,
        round(o.value, 2) AS our_percent,
        o.dataset,
        o.evaluation,
        list_filter([
            CASE WHEN o.published_data IS DISTINCT FROM c.dataset THEN 'dataset' END,
            CASE WHEN o.mode <> 'max_steps' THEN 'mode ' || o.mode END,
            CASE WHEN o.identifiers <> 'own' THEN o.identifiers || ' identifiers' END,
            CASE WHEN o.adapt_weights THEN 'adapted weights' WHEN NOT o.adapt_weights THEN 'adapted embeddings' END,
            CASE WHEN o.noise > 0 THEN 'noise' END,
            CASE WHEN o.latent_init <> 'fixed' THEN o.latent_init || ' latents' END,
            CASE
                WHEN c.depth IS NULL THEN 'depth not stated' WHEN c.depth <> o.supervision_steps THEN 'depth'
            END,
            CASE WHEN c.breadth IS NULL THEN 'breadth not stated' WHEN c.breadth IS DISTINCT FROM o.breadth THEN 'breadth' END,
            CASE
                WHEN c.selection IS NULL THEN 'selection not stated'
                WHEN c.selection <> o.selected_by THEN 'selection'
            END,
            CASE
                WHEN c.precision IS NULL THEN 'precision not stated'
                WHEN c.precision IS DISTINCT FROM o.precision THEN 'precision'
            END,
            CASE
                WHEN c.training_puzzles IS NULL THEN 'training puzzles not stated'
                WHEN c.training_puzzles IS DISTINCT FROM o.training_puzzles THEN 'training puzzles'
            END
        ], lambda difference: difference IS NOT NULL) AS differences
    FROM ours AS o
    JOIN claims AS c ON c.metric = o.metric AND starts_with(c.dataset, o.kind)
    WHERE o.value IS NOT NULL AND o.kind <> ''
)
SELECT
    run,
    step,
    dataset,
    work,
    claimed_on,
    metric,
    claimed_percent,
    our_percent,
    CASE WHEN len(differences) = 0 THEN 'same protocol' ELSE 'differs: ' || array_to_string(differences, ', ') END AS protocol,
    source,
    stated,
    evaluation
FROM compared
ORDER BY run, step, evaluation, len(differences), claimed_percent DESC, work;
