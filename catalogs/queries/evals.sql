-- One row per evaluation: puzzles, exactly right puzzles, share of right cells.
SELECT
    run,
    step,
    weights,
    dataset,
    split,
    count,
    round(100.0 * exact_accuracy, 2) AS exact_percent,
    round(100.0 * cell_accuracy, 2) AS cells_percent,
    round(100.0 * CASE WHEN exact_count > 0 THEN q_halt_accuracy END, 2) AS q_halt_right_percent,
    supervision_steps,
    how,
    evaluation
FROM evals
ORDER BY created_at;
