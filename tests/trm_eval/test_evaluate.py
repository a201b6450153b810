"""Which checkpoint is evaluated, what an evaluation's id depends on, and what the writer refuses."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trm_data.storage.local import LocalStore
from trm_data.storage.root import resolve_root
from trm_data.storage.store import Folder
from trm_eval.errors import EvalError, ResultError
from trm_eval.evaluate import choose_step
from trm_eval.score.cells import labelled_cells, wrong_cells
from trm_eval.tables.query import load_query, named_queries
from trm_eval.tables.schema import TABLES, comments
from trm_eval.tables.writer import token_lists, write_table
from trm_train.checkpoint.manager import COMMITTED
from trm_train.metrics.table import MetricTable


@pytest.fixture
def run(tmp_path: Path) -> Folder:
    """A run with weights at three steps, of which the second validated best."""
    for step in (10, 20, 30):
        folder = tmp_path / "checkpoints" / "weights" / str(step)
        folder.mkdir(parents=True)
        (folder / COMMITTED).touch()
    (tmp_path / "checkpoints" / "weights" / "40.orbax-checkpoint-tmp").mkdir()
    folder = Folder(LocalStore(tmp_path.parent), tmp_path.name)
    table = MetricTable(folder)
    for step, exact in ((10, 3), (15, 9), (20, 7), (30, 5)):
        table.add(
            {"step": step, "split": "validation", "count": 10, "exact_accuracy": exact, "rows_loaded": 0}
        )
    part = table.take_part(30)
    assert part is not None
    table.write_part(part)
    return folder


@pytest.mark.parametrize(("checkpoint", "step"), [("last", 30), ("best", 20), ("10", 10)])
def test_the_checkpoint_that_is_meant(run: Folder, checkpoint: str, step: int) -> None:
    assert choose_step(run, checkpoint) == step


@pytest.mark.parametrize("checkpoint", ["40", "15", "first", "-1"])
def test_checkpoints_that_are_not_there(run: Folder, checkpoint: str) -> None:
    with pytest.raises(EvalError, match="10, 20, 30"):
        choose_step(run, checkpoint)


def test_a_run_without_checkpoints(tmp_path: Path) -> None:
    with pytest.raises(EvalError, match="no checkpoint yet"):
        choose_step(Folder(LocalStore(tmp_path), "run"), "last")


def test_padding_is_no_cell() -> None:
    labels = np.array([[0, 2, 3], [2, 2, 2]], np.uint8)
    predictions = np.array([[9, 2, 4], [2, 2, 2]], np.uint8)
    np.testing.assert_array_equal(wrong_cells(predictions, labels), [1, 0])
    np.testing.assert_array_equal(labelled_cells(labels), [2, 3])


def test_token_lists_keep_their_rows() -> None:
    tokens = np.arange(12, dtype=np.uint8).reshape(3, 4)
    assert token_lists(tokens).to_pylist() == tokens.tolist()


def test_rows_that_do_not_fit_the_schema_are_refused(tmp_path: Path) -> None:
    layout = resolve_root(tmp_path)
    with pytest.raises(ResultError, match="could not be written"):
        write_table(layout, "runs", "e", "r", "run", [{"seed": "not a number"}])
    with pytest.raises(ResultError):
        write_table(layout, "runs", "e", "r", "run", pa.table({"seed": [1]}))
    assert not list(tmp_path.rglob("*.parquet"))


def test_writing_again_replaces(tmp_path: Path) -> None:
    layout = resolve_root(tmp_path)
    for seed in (1, 2):
        path = Path(write_table(layout, "runs", "e", "r", "run", [{"seed": seed}]))
    assert pq.read_table(path)["seed"].to_pylist() == [2]
    assert [file.name for file in path.parent.iterdir()] == ["run.parquet"]


def test_every_column_of_every_table_has_a_comment() -> None:
    for table in TABLES:
        assert all(comments(table).values()), table


def test_every_named_query_says_what_it_answers() -> None:
    assert set(named_queries()) >= {"accuracy_by_rating", "evals", "training_curve", "wrong_cells", "halting"}
    for name, answers in named_queries().items():
        assert answers.endswith((".", "answers are.")) or ":" in answers, name
        assert load_query(name).rstrip().endswith(";")
