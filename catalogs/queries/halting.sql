-- Step at which the network would have halted, and whether the answer was right then; NULL: it did not halt within its steps.
SELECT
    run,
    step,
    weights,
    dataset,
    split,
    row_limit,
    supervision_steps,
    any_value(how) AS how,
    halt_step,
    count(*) AS puzzles,
    count_if(exact) AS exact,
    evaluation
FROM tested_predictions
GROUP BY run, step, weights, dataset, split, row_limit, supervision_steps, halt_step, evaluation
ORDER BY run, step, weights, split, evaluation, halt_step;
