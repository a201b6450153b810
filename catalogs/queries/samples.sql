-- Accuracy of the first 1, 2, ... samples of a puzzle: chosen without labels, and by an oracle.
SELECT
    run,
    step,
    weights,
    dataset,
    split,
    row_limit,
    supervision_steps,
    noise,
    selection,
    samples,
    round(100 * exact_accuracy, 2) AS exact_percent,
    round(100 * exact_low, 2) AS low,
    round(100 * exact_high, 2) AS high,
    round(100 * oracle_exact_accuracy, 2) AS oracle_percent,
    evaluation
FROM samples
WHERE count > 0
ORDER BY run, step, weights, split, noise, selection, evaluation, samples;
