"""Schemas of the result tables. Every column has a comment with its unit; SQL shows them.

The folders `experiment=<e>/run=<r>` of a table add two columns, `experiment` and `run`.
"""

from __future__ import annotations

import pyarrow as pa

from trm_train.metrics import SCHEMA as TRAIN_METRICS
from trm_train.metrics import SUM_OF

PARTITION_COLUMNS = {
    "experiment": "name of the experiment (trm-train list)",
    "run": "name of the run: experiment, hash of its configuration, seed",
}
PARTITIONING = pa.schema([(name, pa.string()) for name in PARTITION_COLUMNS])


def _schema(columns: list[tuple[str, pa.DataType, str]]) -> pa.Schema:
    return pa.schema([pa.field(name, kind, metadata={"comment": text}) for name, kind, text in columns])


def comments_of(schema: pa.Schema) -> dict[str, str]:
    """Return the comment of every column of a schema."""
    return {field.name: (field.metadata or {}).get(b"comment", b"").decode() for field in schema}


RUNS = _schema(
    [
        ("experiment_group", pa.string(), "file the experiment is written in"),
        ("scale", pa.string(), "full, laptop or tiny; own outside the study; empty for earlier runs"),
        (
            "data",
            pa.string(),
            "puzzles: published, generated-extreme or generated; empty for earlier runs",
        ),
        ("identity", pa.string(), "sha256 over the configuration that changes the mathematics, hexadecimal"),
        ("seed", pa.int64(), "seed of the run"),
        ("dataset", pa.string(), "name of the dataset"),
        (
            "differs",
            pa.string(),
            "differences from the experiment's definition, as key=value; NULL if unknown",
        ),
        ("label", pa.string(), "label given by the user (--label)"),
        ("content_digest", pa.string(), "digest of the dataset's rows, hexadecimal"),
        ("config", pa.string(), "the whole configuration as JSON"),
        ("total_steps", pa.int64(), "optimizer steps planned (steps)"),
        ("global_batch_size", pa.int32(), "slots of a batch (examples)"),
        ("created_at", pa.timestamp("us", "UTC"), "when the run began (UTC)"),
        ("versions", pa.string(), "library versions as JSON"),
        (
            "parameters",
            pa.int64(),
            "trained parameters of the network, without the puzzle embedding; NULL if unknown (parameters)",
        ),
        (
            "training_flops",
            pa.float64(),
            "operations of all steps of its experiment, counted by its network; NULL if unknown (FLOP)",
        ),
        (
            "evaluation_flops",
            pa.float64(),
            "operations of one example tested, all supervision steps; NULL if unknown (FLOP)",
        ),
    ]
)

EVALS = _schema(
    [
        (
            "evaluation",
            pa.string(),
            "id: hash over run, its dataset, step, weights, split, limit, evaluation version and how rows are answered",
        ),
        ("step", pa.int64(), "training step of the checkpoint (steps)"),
        ("weights", pa.string(), "ema or raw"),
        ("dataset", pa.string(), "name of the dataset"),
        ("split", pa.string(), "train, validation or test"),
        ("split_digest", pa.string(), "digest of the split's rows, hexadecimal"),
        ("row_limit", pa.int64(), "maximum number of rows; 0: all (examples)"),
        ("supervision_steps", pa.int32(), "maximum supervision steps of a row (steps)"),
        ("count", pa.int64(), "rows evaluated that have labels (examples)"),
        ("exact_count", pa.int64(), "rows with every cell right (examples)"),
        ("cells", pa.int64(), "labelled cells (cells)"),
        ("wrong_cells", pa.int64(), "labelled cells that are wrong (cells)"),
        (
            "q_halt_right_count",
            pa.int64(),
            "rows whose halting logit agrees with their correctness (examples)",
        ),
        ("lm_loss_sum", pa.float64(), "sum over rows of the mean cross-entropy over cells (nats)"),
        (
            "seconds",
            pa.float64(),
            "wall-clock time of inference (s); includes compilation if compile_seconds is NULL",
        ),
        ("evaluation_version", pa.int32(), "version of the code that decides predictions; NULL before 1"),
        ("code_version", pa.string(), "version of trm-lab"),
        ("created_at", pa.timestamp("us", "UTC"), "when the evaluation ended (UTC)"),
        ("parts", pa.list_(pa.string()), "its files of predictions"),
        ("part_digests", pa.list_(pa.string()), "digest in the name of each file; NULL in format 1"),
        (
            "exact_by_depth",
            pa.list_(pa.int64()),
            "rows with every cell right after 1, 2, ... supervision steps; NULL for earlier ones (examples)",
        ),
        (
            "wrong_cells_by_depth",
            pa.list_(pa.int64()),
            "labelled cells that are wrong after 1, 2, ... supervision steps (cells)",
        ),
        (
            "halting_by_depth",
            pa.list_(pa.int64()),
            "rows whose halting logit is above 0 for the first time after 1, 2, ... supervision steps (examples)",
        ),
        (
            "halting_exact_by_depth",
            pa.list_(pa.int64()),
            "of those, rows with every cell right at that step (examples)",
        ),
        ("compile_seconds", pa.float64(), "time to compile, or to read the program from the cache (s)"),
        (
            "mode",
            pa.string(),
            "max_steps: supervision_steps for every row; halting: rows halt as in training; NULL is max_steps",
        ),
        ("subset_seed", pa.int64(), "seed that drew row_limit rows; NULL: the first rows"),
        (
            "identifiers",
            pa.string(),
            "puzzle identifiers of the rows: own, blank or random; NULL is own",
        ),
        (
            "spent_steps",
            pa.int64(),
            "supervision steps of all rows and samples (steps); NULL for earlier ones",
        ),
        ("samples", pa.int32(), "sampled answers of each row; NULL: one answer without noise"),
        ("noise", pa.float64(), "standard deviation of the noise on the latent states of samples"),
        (
            "selection",
            pa.string(),
            "how a sample was chosen: halt_logit, mode, first_halt, residual or rules",
        ),
        ("sample_seed", pa.int64(), "seed of the noise"),
        (
            "exact_by_samples",
            pa.list_(pa.int64()),
            "rows whose answer, chosen among the first 1, 2, ... samples, is right (examples)",
        ),
        (
            "oracle_by_samples",
            pa.list_(pa.int64()),
            "rows of which one of the first 1, 2, ... samples is right (examples)",
        ),
        (
            "vote_parts",
            pa.list_(pa.string()),
            "its files of votes; NULL if it has no votes",
        ),
        ("vote_digests", pa.list_(pa.string()), "digest in the name of each of them"),
        (
            "trace_parts",
            pa.list_(pa.string()),
            "its files of traces; NULL if none were requested",
        ),
        ("trace_digests", pa.list_(pa.string()), "digest in the name of each of them"),
        (
            "adapt_minutes",
            pa.float64(),
            "time limit of the adaptation to the training split; NULL without that limit (min)",
        ),
        ("adapt_steps_asked", pa.int64(), "step limit of the adaptation; NULL without that limit (steps)"),
        (
            "adapt_weights",
            pa.bool_(),
            "adaptation trained the network weights too, not only puzzle embeddings; NULL without adaptation",
        ),
        (
            "adapt_steps",
            pa.int64(),
            "training steps of the adaptation; NULL without adaptation (steps)",
        ),
        ("adapt_seconds", pa.float64(), "time of the adaptation, compilation included (s)"),
        (
            "given_kept_count",
            pa.int64(),
            "rows that keep the given cells; NULL if the kind has none (examples)",
        ),
        (
            "valid_count",
            pa.int64(),
            "rows with a legal answer; NULL if the kind does not define it (examples)",
        ),
        (
            "optimal_count",
            pa.int64(),
            "rows with an answer as good as the label; NULL if the kind does not define it (examples)",
        ),
        ("rated_count", pa.int64(), "rows whose puzzle has a rating; NULL for earlier ones (examples)"),
        (
            "precision",
            pa.string(),
            "precision of the computation: float32, bfloat16 or float16; NULL for earlier evaluations",
        ),
        (
            "asked_precision",
            pa.string(),
            "requested precision; NULL: the precision of the training",
        ),
        (
            "latent_init",
            pa.string(),
            "initial latent states: fixed, those of the run, or random, drawn for each sample; NULL is fixed",
        ),
        (
            "network_calls",
            pa.float64(),
            "applications of a stack of layers a puzzle: steps x samples x H cycles x (L cycles + 1) (calls)",
        ),
        (
            "flops",
            pa.float64(),
            "operations a puzzle, all steps and samples; NULL if the network does not count them (FLOP)",
        ),
        (
            "scaling_depths",
            pa.list_(pa.int32()),
            "supervision steps after which samples were scored too; NULL if not requested (steps)",
        ),
        (
            "scaling_exact",
            pa.list_(pa.list_(pa.int64())),
            "exact_by_samples after each of scaling_depths (examples)",
        ),
        (
            "scaling_oracle",
            pa.list_(pa.list_(pa.int64())),
            "oracle_by_samples after each of scaling_depths (examples)",
        ),
        (
            "solved_by_depth",
            pa.list_(pa.int64()),
            "answers of all rows and samples that are right after 1, 2, ... supervision steps; NULL without samples "
            "(answers)",
        ),
        (
            "ever_by_depth",
            pa.list_(pa.int64()),
            "answers that were right at some step up to then; NULL if unknown (answers)",
        ),
        ("lost_by_depth", pa.list_(pa.int64()), "of those, answers that are no longer right (answers)"),
    ]
)

PREDICTIONS = _schema(
    [
        ("evaluation", pa.string(), "id of the evaluation"),
        ("part", pa.string(), "file of the row"),
        ("row", pa.int64(), "row of the split, from 0"),
        ("group_index", pa.int32(), "base puzzle, as in puzzles.group_index"),
        ("augmentation", pa.int32(), "augmentation within the group; 0 is the original"),
        ("exact", pa.bool_(), "every labelled cell is right; NULL without labelled cells"),
        ("cells", pa.int32(), "labelled cells (cells)"),
        ("wrong_cells", pa.int32(), "labelled cells that are wrong (cells)"),
        ("steps", pa.int32(), "supervision steps spent on the answer (steps)"),
        (
            "halt_step",
            pa.int32(),
            "first supervision step whose halting logit is above 0; NULL if none (steps)",
        ),
        ("q_halt_logit", pa.float32(), "halting logit after the last supervision step"),
        ("prediction", pa.list_(pa.uint8()), "predicted tokens, a cell each"),
        ("sample", pa.int32(), "chosen sample, from 0; NULL without samples"),
        ("oracle_exact", pa.bool_(), "at least one sample is right; NULL without samples"),
        (
            "given_kept",
            pa.bool_(),
            "clues (Sudoku), walls and ends (maze) are unchanged; NULL for other kinds and earlier evaluations",
        ),
        (
            "valid",
            pa.bool_(),
            "legal answer, equal to the label or not: Sudoku grid that keeps its clues, one path from S to G",
        ),
        ("optimal", pa.bool_(), "maze: valid and as short as the label's path; NULL for other kinds"),
        (
            "rating",
            pa.float32(),
            "rating of the puzzle (puzzles.rating) when it was answered; NULL without one, and for earlier evaluations",
        ),
    ]
)

NOTIONS = ("given_kept", "valid", "optimal")
"""Columns of predictions by `trm_data.kinds.base.Scores`; evals have <notion>_count."""

VOTES = _schema(
    [
        ("evaluation", pa.string(), "id of the evaluation"),
        ("part", pa.string(), "file of the row"),
        ("task", pa.string(), "name of the task, as in puzzles.task"),
        ("test_index", pa.int32(), "test input of the task, from 0"),
        (
            "rank",
            pa.int32(),
            "place among the candidates of the test input, from 1: by votes, then mean_q, then first occurrence",
        ),
        ("votes", pa.int32(), "augmentations with this answer, after undoing the augmentation (examples)"),
        ("mean_q", pa.float64(), "mean over them of sigmoid(halting logit) (0 to 1)"),
        ("correct", pa.bool_(), "equal to the solution; NULL if the task has none"),
        ("first_row", pa.int64(), "row of the split that voted for it first, from 0"),
        ("rows", pa.int32(), "rows of the grid; 0 if the answer does not begin with a colour (cells)"),
        ("columns", pa.int32(), "columns of the grid (cells)"),
        ("grid", pa.list_(pa.uint8()), "colours of its cells, row by row (0 to 9)"),
    ]
)

TRACES = _schema(
    [
        ("evaluation", pa.string(), "id of the evaluation"),
        ("part", pa.string(), "file of the row"),
        ("row", pa.int64(), "row of the split, from 0"),
        ("supervision_step", pa.int32(), "supervision step, from 1 (steps)"),
        ("cycle", pa.int32(), "high-level cycle of that step, from 1 (cycles)"),
        (
            "exact",
            pa.bool_(),
            "every labelled cell is right after this cycle; NULL without labelled cells",
        ),
        ("wrong_cells", pa.int32(), "labelled cells that are wrong after this cycle (cells)"),
        ("q_halt_logit", pa.float32(), "halting logit after this cycle"),
        (
            "halt_margin",
            pa.float32(),
            "confidence in the answer; at the last cycle of a step, training halts above 0",
        ),
        ("answer", pa.list_(pa.uint8()), "tokens decoded after this cycle, a cell each"),
        (
            "latents",
            pa.binary(),
            "latent states after this cycle, float16, little-endian, in latent_shape; NULL if not requested",
        ),
        ("latent_names", pa.list_(pa.string()), "names of the states, in the order of latents"),
        ("latent_shape", pa.list_(pa.int32()), "states, positions (puzzle embedding first), hidden size"),
    ]
)

EXPERIMENTS = _schema(
    [
        ("experiment", pa.string(), "name of the experiment (trm-train list), or a point of a sweep"),
        ("experiment_group", pa.string(), "file the experiment is written in, or name of the sweep"),
        ("scale", pa.string(), "full, laptop or tiny; own outside the study"),
        ("data", pa.string(), "puzzles: published, generated-extreme or generated; empty outside the study"),
        (
            "alias_of",
            pa.string(),
            "experiment whose run it shares at this scale and data; NULL if it has its own run",
        ),
        ("runs_of", pa.string(), "experiment that names its runs: alias_of, the swept one, or itself"),
        ("identity", pa.string(), "sha256 over the configuration that changes the mathematics, hexadecimal"),
        ("dataset", pa.string(), "name of the dataset"),
        (
            "total_steps",
            pa.int64(),
            "optimizer steps of the experiment; a run that was extended has more (steps)",
        ),
        ("varies", pa.string(), "its value of what the group varies"),
        ("quantity", pa.string(), "name of the varied quantity, if it is a number"),
        ("value", pa.float64(), "value of the quantity, in `unit`"),
        ("unit", pa.string(), "unit of `value`"),
        ("series", pa.string(), "what a sweep varies besides the quantity; NULL if nothing"),
        ("supervision_steps", pa.int32(), "maximum supervision steps, in training and in its test (steps)"),
        ("question", pa.string(), "question of the experiment"),
    ]
)
"""Columns of the view `experiments`, which comes from the registry and the sweeps of the root."""

CLAIMS = _schema(
    [
        ("work", pa.string(), "what was published"),
        ("source", pa.string(), "arXiv number, repository, or page of arcprize.org or huggingface"),
        ("dataset", pa.string(), "puzzles it was tested on, as the field calls them"),
        ("metric", pa.string(), "exact_accuracy, optimal_accuracy (any shortest path), pass@1 or pass@2"),
        ("value", pa.float64(), "published result (%)"),
        ("interval", pa.string(), "its interval or spread, as it is stated"),
        ("depth", pa.int32(), "supervision steps; NULL if not stated (steps)"),
        ("breadth", pa.int32(), "samples, or augmentations that vote; NULL if not stated"),
        ("selection", pa.string(), "how one answer is chosen: last, halt_logit, residual, votes, ..."),
        ("precision", pa.string(), "precision of the evaluation; NULL if not stated"),
        ("parameters", pa.int64(), "parameters of the network; NULL if not stated (parameters)"),
        ("training_puzzles", pa.int64(), "base puzzles or tasks that it learned (puzzles)"),
        ("hardware", pa.string(), "what it was trained on"),
        ("hours", pa.float64(), "training time (h)"),
        (
            "stated",
            pa.string(),
            "primary: in the work's own paper or repository; second-hand: as others report it",
        ),
        ("note", pa.string(), "where in the source, and what else differs"),
    ]
)
"""Columns of the view `claims`, which comes from `catalogs/claims.csv`."""

PUZZLE_TOKENS = _schema(
    [
        ("dataset", pa.string(), "name of the dataset"),
        ("split", pa.string(), "train, validation or test"),
        ("split_digest", pa.string(), "digest of the split's rows, hexadecimal"),
        ("row", pa.int64(), "row of the split, from 0"),
        ("group_index", pa.int32(), "base puzzle, as in puzzles.group_index"),
        ("augmentation", pa.int32(), "augmentation within the group; 0 is the original"),
        ("inputs", pa.list_(pa.uint8()), "tokens of the puzzle, a cell each (docs/concepts.md)"),
        ("labels", pa.list_(pa.uint8()), "tokens of its solution, a cell each; 0 if unknown"),
        ("grid_columns", pa.int32(), "columns of the grid that the tokens are laid out in (cells)"),
    ]
)
"""Columns of the view `puzzle_tokens`, which comes from the datasets."""

RUN_STATUS = _schema(
    [
        (
            "state",
            pa.string(),
            "running, finished (done in `trm-train status`), stopped or failed, as last reported; stalled if its "
            "process on this machine has ended",
        ),
        ("step", pa.int64(), "optimizer steps whose metrics are written (steps)"),
        ("examples_per_s", pa.float64(), "slots per second before the last heartbeat (examples/s)"),
        ("train_seconds", pa.float64(), "training time over all starts, compilation aside (s)"),
        ("compile_seconds", pa.float64(), "time to compile at the last start (s)"),
        ("heartbeat", pa.timestamp("us", "UTC"), "last heartbeat of the run (UTC)"),
        ("loss", pa.float64(), "mean cross-entropy of the last training step over slots and cells (nats)"),
        ("best_validation", pa.float64(), "highest exact accuracy of the validations so far (0 to 1)"),
        (
            "best_optimal_share",
            pa.float64(),
            "largest validated share of answers as good as the label; NULL for puzzles with one (0 to 1)",
        ),
    ]
)
"""Columns of the view `runs` that change during a run; they come from its status.json."""

LEGACY: dict[str, dict[str, str]] = {
    "runs": {},
    "train_metrics": {sums: rate for rate, sums in SUM_OF.items()},
    "evals": {
        "exact_count": "exact",
        "q_halt_right_count": "q_halt_right",
        "lm_loss_sum": "lm_loss",
        "row_limit": "limit",
    },
}
"""Names in files of format 1 of columns that have other names today."""

RUN_PROCESS = pa.schema([("host", pa.string()), ("process", pa.int64())])
"""Machine and process of a running run, which the view `runs` does not show."""

VIEW_COMMENTS = {
    "how": "how rows were answered, in words: mode, samples, identifiers, subset, adaptation",
    "as_published": "each row once, all steps long, under its own identifier, with the trained weights",
    "oracle_exact_count": "rows of which one of these samples is right (examples)",
    "samples_per_row": "answers of each row that are counted (samples)",
    "seconds_of": "time of the pass in proportion to network calls (s)",
    "solved": "answers that are right after this step (answers)",
    "ever": "answers that have been right at some step up to this one (answers)",
    "lost": "of those, answers that are no longer right (answers)",
    "answers": "rows with labels, times samples where samples were drawn (answers)",
    "solved_share": "share of answers that are right after this step (0 to 1)",
    "ever_share": "share of answers that have been right at some step up to this one (0 to 1)",
    "lost_share": "share of answers that have been right and are no longer (0 to 1)",
    "oracle_exact_accuracy": "share of count of which one of these samples is right (0 to 1)",
    "depth": "supervision steps taken, this one included (steps)",
    "halting_count": "rows whose halting logit is above 0 for the first time at this depth (examples)",
    "halting_exact_count": "of those, rows with every cell right (examples)",
    "halted_count": "rows whose halting logit has been above 0 by this depth (examples)",
    "accuracy": "share of cells that are right, mean over count (0 to 1)",
    "exact_accuracy": "share of count with every cell right (0 to 1)",
    "q_halt_accuracy": "share of count whose halting logit agrees with their correctness (0 to 1)",
    "halted_share": "share of count whose halting logit is above 0 at some step (0 to 1)",
    "mean_halting_steps": "supervision steps up to the first halting logit above 0, else all, mean over count (steps)",
    "exact_low": "lower end of the 95% interval of exact_accuracy (Wilson)",
    "exact_high": "upper end of the 95% interval of exact_accuracy (Wilson)",
    "goal": "80%, 85%, or 95% of final",
    "final_accuracy": "exact accuracy of the validation after the last step; NULL during the run (0 to 1)",
    "target_accuracy": "exact accuracy of a validation that reaches the goal (0 to 1)",
    "reached_step": "step of the first validation that reaches the goal; NULL if none does (steps)",
    "reached_seconds": "training time up to there over all starts, compilation aside (s)",
    "experiments": "names of experiments that share the run, its own first",
    "measure": "kind of cost: parameters, training_flops or train_seconds",
    "cost": "amount, in the unit of the column that measure names",
    "on_front": "no other run is as accurate for less, or more accurate for as little",
    "test_seconds": "wall-clock time of inference in the test (s); of evaluations before 2 with compilation",
    "cell_accuracy": "share of labelled cells that are right (0 to 1)",
    "mean_steps": "supervision steps spent, mean over count (steps)",
    "steps_std": "standard deviation of the supervision steps spent, over count (steps)",
    "examples_per_s": "slots per second of this step (examples/s)",
    "k": "candidates that count for pass@K (candidates)",
    "tasks": "tasks whose solutions are known (tasks)",
    "test_inputs": "test inputs of these tasks (test inputs)",
    "pass_at_k": "share of test inputs with the right grid among the first K, mean over tasks (0 to 1)",
    "given_kept_share": "share of count that keeps the given cells (0 to 1)",
    "valid_share": "share of count with a legal answer (0 to 1)",
    "optimal_share": "share of count with an answer as good as the label (0 to 1)",
    "data_wait": "share of the step spent waiting for a batch (0 to 1)",
    "mfu": "share of the devices' peak FLOP/s; NULL if unknown (0 to 1)",
    "lm_loss": "mean cross-entropy over cells, mean over slots or rows (nats)",
    "q_halt_loss": "halting cross-entropy, mean over slots (nats)",
    "cell": "cell of the puzzle, from 0",
    "grid_row": "row of the grid of the cell, from 0",
    "grid_column": "column of the grid of the cell, from 0",
    "input": "token of the puzzle there",
    "predicted": "token that was predicted there",
    "given": "puzzle and solution have the same token there: a clue (Sudoku), what is no path (maze); of ARC "
    "that the colour stays",
    "wrong": "the solution is known there, and another token was predicted",
}
"""Columns that only views have; those of two runs side by side end in `_a` and `_b`."""

COMMENTS_OF_ONE_VIEW = {
    ("samples", "samples"): "number of first samples of a row, of which the answer is chosen (samples)",
    ("predicted_cells", "label"): "token of the solution there; 0 if unknown",
    ("disagreements", "exact_a"): "every labelled cell is right in the answer of run a",
    ("disagreements", "exact_b"): "every labelled cell is right in the answer of run b",
    **{("study", column): text for column, text in comments_of(EXPERIMENTS).items()},
}
"""Columns that mean something else in a view than in the table of which most views have them, by view and column."""

TABLES = {
    "runs": RUNS,
    "train_metrics": TRAIN_METRICS,
    "evals": EVALS,
    "predictions": PREDICTIONS,
    "votes": VOTES,
    "traces": TRACES,
}

NAMED_BY_EVALS = {
    "predictions": ("parts", "part_digests"),
    "votes": ("vote_parts", "vote_digests"),
    "traces": ("trace_parts", "trace_digests"),
}
"""Tables of which only those files count that a row of `evals` names, and its columns that do."""


STORED = {
    "runs": pa.unify_schemas([PARTITIONING, RUNS, RUN_STATUS, RUN_PROCESS]),
    "train_metrics": pa.unify_schemas([PARTITIONING, TRAIN_METRICS]),
    "evals": pa.unify_schemas([PARTITIONING, EVALS]),
}
"""Columns of the tables whose rows are in the index."""

OPENED = {
    **{table: TABLES[table] for table in NAMED_BY_EVALS},
    "puzzle_tokens": PUZZLE_TOKENS,
    "experiments": EXPERIMENTS,
    "claims": CLAIMS,
}
"""Columns of the tables that a query that reads them opens."""


def no_rows(schema: pa.Schema) -> pa.Table:
    """Return a table without rows; `empty_table` would import pandas where it is installed (0.13 s)."""
    return pa.Table.from_batches([], schema)


def column_comments() -> dict[tuple[str, str], str]:
    """Return the comment of every column, by table and column."""
    schemas = TABLES | {"puzzle_tokens": PUZZLE_TOKENS, "experiments": EXPERIMENTS, "claims": CLAIMS}
    texts = {(table, name): text for table in TABLES for name, text in PARTITION_COLUMNS.items()}
    for table, schema in [*schemas.items(), ("runs", RUN_STATUS)]:
        texts |= {(table, name): text for name, text in comments_of(schema).items()}
    return texts
