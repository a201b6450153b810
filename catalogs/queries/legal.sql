-- Answers by the rules of the puzzle: equal to the label, keeping the given cells, legal, and as good as the label.
SELECT
    run,
    step,
    weights,
    dataset,
    split,
    row_limit,
    supervision_steps,
    how,
    count AS puzzles,
    round(100 * exact_accuracy, 2) AS exact_percent,
    round(100 * given_kept_share, 2) AS given_kept_percent,
    round(100 * valid_share, 2) AS valid_percent,
    round(100 * optimal_share, 2) AS optimal_percent,
    evaluation
FROM evals
WHERE coalesce(given_kept_count, valid_count, optimal_count) IS NOT NULL
ORDER BY run, step, weights, split, created_at;
