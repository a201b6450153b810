-- Views over the result tables. trm-eval registers the Parquet files as <table>_files (with the columns
-- experiment and run from their folders) and the dataset catalog as the schema `catalog`, then runs this.

CREATE VIEW runs AS SELECT * FROM runs_files;

CREATE VIEW train_metrics AS SELECT * FROM train_metrics_files;

CREATE VIEW evals AS SELECT * FROM evals_files;

-- Only what a finished evaluation names: parts of a writer that died, or of an older division, do not show.
CREATE VIEW predictions AS
SELECT p.*
FROM predictions_files AS p
SEMI JOIN (SELECT evaluation, unnest(parts) AS part FROM evals_files) AS named
    ON p.evaluation = named.evaluation AND p.part = named.part;

-- Every prediction with what the dataset catalog knows of its puzzle. The catalog's split must have the very rows
-- that were evaluated: where a dataset was deleted, or rebuilt with others, rating and clues are NULL.
CREATE VIEW predicted_puzzles AS
SELECT
    p.*,
    e.step,
    e.weights,
    e.dataset,
    e.split,
    e."limit",
    e.supervision_steps,
    q.rating,
    q.rating_source,
    q.clues,
    q.source_file,
    q.source_row
FROM predictions AS p
JOIN evals AS e USING (evaluation)
LEFT JOIN catalog.splits AS s ON s.dataset = e.dataset AND s.split = e.split AND s.digest = e.split_digest
LEFT JOIN catalog.puzzles AS q
    ON q.dataset = s.dataset AND q.split = s.split AND q.group_index = p.group_index;
