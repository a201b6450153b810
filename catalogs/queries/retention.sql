-- Answers that are right after each supervision step, that were right at some step, and that were lost again.
SELECT
    run,
    step,
    dataset,
    split,
    precision,
    samples,
    answers,
    depth,
    round(100 * solved_share, 2) AS solved_percent,
    round(100 * ever_share, 2) AS ever_percent,
    round(100 * lost_share, 2) AS lost_percent,
    evaluation
FROM retention
QUALIFY depth & (depth - 1) = 0 OR depth = max(depth) OVER (PARTITION BY evaluation)
ORDER BY run, step, split, evaluation, depth;
