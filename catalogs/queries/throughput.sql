-- Training speed of every run in windows of 50 steps: examples/s, share of time waiting for data, share of the devices' peak.
SELECT
    run,
    50 * ((step + 49) // 50) AS up_to_step,
    round(sum(global_batch_size) / sum(step_s), 1) AS examples_per_s,
    round(100 * sum(data_wait_s) / sum(step_s), 2) AS waiting_percent,
    round(100 * sum(model_flops) / sum(step_s * peak_flops_per_s), 2) AS used_percent,
    round(avg(grad_norm), 4) AS grad_norm,
    round(avg(update_norm), 4) AS update_norm,
    max(device_memory_bytes) AS device_memory_bytes
FROM train_metrics
WHERE dataset IS NULL AND split = 'train' AND step_s IS NOT NULL
GROUP BY run, up_to_step
ORDER BY run, up_to_step;
