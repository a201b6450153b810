-- Training in windows of 50 steps (accuracies over examples that ended in the window, loss over all slots), and every validation.
SELECT
    run,
    split,
    CASE WHEN split = 'train' THEN 50 * ((step + 49) // 50) ELSE step END AS up_to_step,
    sum(count) AS examples,
    round(100.0 * sum(exact_count) / nullif(sum(count), 0), 2) AS exact_percent,
    round(100.0 * sum(accuracy_sum) / nullif(sum(count), 0), 2) AS cells_percent,
    round(sum(steps_sum) / nullif(sum(count), 0), 2) AS mean_steps,
    round(sum(lm_loss_sum) / sum(global_batch_size), 4) AS lm_loss
FROM train_metrics
WHERE dataset IS NULL
GROUP BY run, split, up_to_step
ORDER BY run, split, up_to_step;
