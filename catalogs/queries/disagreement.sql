-- Every puzzle that one of two runs of a group solved and the other did not, the hardest first; the view disagreements has it of any two runs.
SELECT
    c.scale,
    c.data,
    c.experiment_a,
    c.experiment_b,
    d.row,
    d.rating,
    d.clues,
    d.path_length,
    d.exact_a,
    d.exact_b,
    d.wrong_cells_a,
    d.wrong_cells_b,
    d.run_a,
    d.run_b
FROM compared_runs AS c
JOIN disagreements AS d ON d.evaluation_a = c.evaluation_a AND d.evaluation_b = c.evaluation_b
ORDER BY c.scale, c.data, c.experiment_group, c.seed, c.experiment_a, c.experiment_b, d.rating DESC NULLS LAST, d.row;
