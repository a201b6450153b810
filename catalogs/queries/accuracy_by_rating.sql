-- Exact accuracy by number of guesses of a solver; 0: solved without guessing.
WITH bucketed AS (
    SELECT
        *,
        CASE
            WHEN rating IS NULL THEN 'unknown'
            WHEN rating = 0 THEN '0'
            WHEN rating <= 1 THEN '0 to 1'
            WHEN rating <= 10 THEN '1 to 10'
            WHEN rating <= 50 THEN '10 to 50'
            ELSE 'above 50'
        END AS rating_bucket
    FROM rated_predictions
    WHERE exact IS NOT NULL
)
SELECT
    run,
    step,
    weights,
    dataset,
    split,
    row_limit,
    supervision_steps,
    any_value(how) AS how,
    rating_bucket,
    count(*) AS puzzles,
    count_if(exact) AS exact,
    round(100.0 * count_if(exact) / count(*), 2) AS exact_percent,
    round(100.0 * (sum(cells) - sum(wrong_cells)) / sum(cells), 2) AS cells_percent,
    round(avg(halt_step), 2) AS mean_halt_step,
    evaluation
FROM bucketed
GROUP BY run, step, weights, dataset, split, row_limit, supervision_steps, rating_bucket, evaluation
ORDER BY run, step, weights, split, evaluation, min(rating);
