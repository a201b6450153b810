-- Steps and hours until validations reach 80%, 85% and 95% of the run's final accuracy; NULL if they never do.
SELECT
    n.scale,
    n.data,
    n.experiment,
    n.varies,
    run,
    round(100 * any_value(t.final_accuracy), 2) AS final_percent,
    any_value(t.reached_step) FILTER (t.goal = '80%') AS steps_to_80,
    round(any_value(t.reached_seconds) FILTER (t.goal = '80%') / 3600, 3) AS hours_to_80,
    any_value(t.reached_step) FILTER (t.goal = '85%') AS steps_to_85,
    round(any_value(t.reached_seconds) FILTER (t.goal = '85%') / 3600, 3) AS hours_to_85,
    any_value(t.reached_step) FILTER (t.goal = '95% of final') AS steps_to_95_of_final,
    round(any_value(t.reached_seconds) FILTER (t.goal = '95% of final') / 3600, 3) AS hours_to_95_of_final
FROM time_to AS t
JOIN named_runs AS n USING (run)
GROUP BY n.scale, n.data, n.experiment_group, n.value, n.experiment, n.varies, run
ORDER BY n.scale, n.data, n.experiment_group, n.value, n.experiment, run;
