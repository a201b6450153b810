-- Puzzles that exactly one of two runs of a group solved, hardest first; the view disagreements covers any two runs.
SELECT
    c.scale,
    c.data,
    c.experiment_a,
    c.experiment_b,
    a.row,
    a.rating,
    a.clues,
    a.path_length,
    a.exact AS exact_a,
    b.exact AS exact_b,
    a.wrong_cells AS wrong_cells_a,
    b.wrong_cells AS wrong_cells_b,
    c.run_a,
    c.run_b
FROM compared_runs AS c
JOIN predicted_puzzles AS a ON a.evaluation = c.evaluation_a
JOIN predictions AS b ON b.evaluation = c.evaluation_b AND b.row = a.row AND b.exact <> a.exact
ORDER BY c.scale, c.data, c.experiment_group, c.seed, c.experiment_a, c.experiment_b, a.rating DESC NULLS LAST, a.row;
