-- Published results beside our newest evaluations of the same kind of puzzle: same protocol, or the differences.
WITH pools AS (
    SELECT dataset, any_value(num_groups) AS training_puzzles FROM splits WHERE split = 'train' GROUP BY dataset
),
kinds AS (
    SELECT
        *,
        CASE
            WHEN dataset LIKE 'sudoku-extreme%' THEN 'sudoku-extreme'
            WHEN dataset LIKE 'maze-30x30-hard%' THEN 'maze-30x30-hard'
            WHEN dataset LIKE 'maze-30x30-%unique%' THEN 'maze-unique'
            WHEN dataset LIKE 'arc1%' THEN 'arc-agi-1'
            WHEN dataset LIKE 'arc2%' THEN 'arc-agi-2'
            ELSE dataset
        END AS field_name
    FROM evals
    WHERE row_limit = 0 AND split = 'test' AND weights = 'ema'
),
ours AS (
    SELECT
        k.run,
        k.step,
        k.evaluation,
        k.dataset AS own_dataset,
        k.field_name AS dataset,
        coalesce(d.kind, regexp_extract(k.field_name, '^(sudoku|maze|arc)')) AS kind,
        unnest([
            {metric: 'exact_accuracy', value: 100 * k.exact_accuracy},
            {metric: 'optimal_accuracy', value: 100 * k.optimal_share}
        ], recursive := true),
        k.supervision_steps AS depth,
        coalesce(k.samples, 1) AS breadth,
        coalesce(k.selection, 'last') AS selection,
        k.precision,
        coalesce(p.training_puzzles, TRY_CAST(regexp_extract(r.dataset, '-(\d+)-aug-', 1) AS BIGINT)) AS training_puzzles
    FROM kinds AS k
    JOIN runs AS r ON r.run = k.run
    LEFT JOIN pools AS p ON p.dataset = r.dataset
    LEFT JOIN datasets AS d ON d.dataset = k.dataset
    UNION ALL BY NAME
    SELECT
        k.run,
        k.step,
        k.evaluation,
        k.dataset AS own_dataset,
        k.field_name AS dataset,
        'arc' AS kind,
        'pass@' || v.k AS metric,
        100 * v.pass_at_k AS value,
        k.supervision_steps AS depth,
        NULL AS breadth,
        'votes' AS selection,
        k.precision,
        p.training_puzzles
    FROM kinds AS k
    JOIN pass_at_k AS v ON v.evaluation = k.evaluation
    JOIN runs AS r ON r.run = k.run
    LEFT JOIN pools AS p ON p.dataset = r.dataset
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
        o.own_dataset AS dataset,
        o.evaluation,
        list_filter([
            CASE WHEN c.dataset <> o.dataset THEN 'dataset' END,
            CASE WHEN c.depth IS NULL THEN 'depth not stated' WHEN c.depth <> o.depth THEN 'depth' END,
            CASE WHEN c.breadth IS NULL THEN 'breadth not stated' WHEN c.breadth IS DISTINCT FROM o.breadth THEN 'breadth' END,
            CASE
                WHEN c.selection IS NULL THEN 'selection not stated'
                WHEN c.selection <> o.selection THEN 'selection'
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
