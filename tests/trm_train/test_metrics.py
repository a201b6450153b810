"""Metrics files: none spans a checkpoint, steps are unique, earlier starts count, old column names are read.

The rows digest of every step equals that of the loader's batches, in every process.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.conftest import run_here
from tests.multiprocess.processes import RUN
from tests.support.roots import root_with
from trm_data.errors import BucketError
from trm_data.loader.dataset import open_dataset
from trm_data.loader.pipeline import make_loader
from trm_data.storage.atomic import stem_of
from trm_data.storage.local import LocalStore
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_train import metrics as metrics
from trm_train.cli import main
from trm_train.mesh import batch_fingerprint
from trm_train.metrics import SCHEMA, SUM_OF, MetricTable, merge_many, missing_steps, part_names, read_metrics
from trm_train.runs.record import list_runs


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(LocalStore(tmp_path), "run")


def row(step: int) -> dict:
    values = {"step": step, "split": "train", "rows_loaded": 8 * step, "global_batch_size": 8, "count": 2}
    rates = {"accuracy": 1.5, "exact_accuracy": 1, "q_halt_accuracy": 2, "steps": 6}
    return values | rates | {"lm_loss": 4.0, "q_halt_loss": 2.0, "lr": 0.1, "seconds": float(step)}


def write(table: MetricTable, steps: range) -> None:
    for step in steps:
        table.add(row(step))
    table.take_part(steps[-1])
    table.write_parts()


def test_parts_are_named_by_their_steps_and_read_in_order(folder: Folder) -> None:
    table = MetricTable(folder)
    table.take_part(0)
    table.write_parts()
    assert part_names(folder) == []
    write(table, range(1, 4))
    write(table, range(4, 9))
    assert [stem_of(name) for name in part_names(folder)] == ["000000001-000000003", "000000004-000000008"]
    read = read_metrics(folder)
    assert read.schema.names == SCHEMA.names
    assert read["step"].to_pylist() == list(range(1, 9))
    assert read["exact_count"].to_pylist() == [1] * 8
    assert read["lm_loss_sum"].to_pylist() == [4.0] * 8


def test_a_run_that_goes_on_drops_what_is_beyond_its_step(folder: Folder) -> None:
    table = MetricTable(folder)
    for steps in (range(1, 5), range(5, 9), range(9, 11)):
        write(table, steps)
    (Path(folder.uri("metrics")) / ".tmp-0-1-000000011-000000012.parquet").touch()
    again = MetricTable(folder, start_step=8)
    assert again.seconds == 8.0  # for the kept steps
    assert again.rows_loaded == 8 * 8 + 2
    write(again, range(9, 12))
    assert read_metrics(folder)["step"].to_pylist() == list(range(1, 12))
    assert not list(Path(folder.uri("metrics")).glob(".tmp*"))


def test_a_part_that_could_not_be_written_is_written_with_the_next(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise BucketError("away")

    table = MetricTable(folder)
    table.add(row(1))
    table.take_part(1)
    with monkeypatch.context() as patched:
        patched.setattr(metrics, "write_digested", away)
        with pytest.raises(BucketError):
            table.write_parts()
    table.add(row(2))
    table.take_part(2)
    table.write_parts()
    assert read_metrics(folder)["step"].to_pylist() == [1, 2]
    assert len(part_names(folder)) == 2


def test_parts_of_the_first_format_are_read_under_the_names_of_today(folder: Folder) -> None:
    table = MetricTable(folder)
    write(table, range(1, 3))
    (name,) = part_names(folder)
    path = Path(folder.uri("metrics/000000001-000000002.parquet"))
    Path(folder.uri(f"metrics/{name}")).rename(path)
    old = {new: rate for rate, new in SUM_OF.items()}
    written = pq.read_table(path)
    pq.write_table(written.rename_columns([old.get(name, name) for name in written.column_names]), path)
    assert "exact_accuracy" in pq.read_table(path).column_names
    assert read_metrics(folder).equals(written)


def test_rows_loaded_goes_on_with_every_slot_that_halted_labelled_or_not(folder: Folder) -> None:
    table = MetricTable(folder)
    table.add({**row(1), "halted_slots": 5})  # 2 of them have labels
    table.take_part(1)
    table.write_parts()
    assert MetricTable(folder, start_step=1).rows_loaded == 8 + 5


def stems(folder: Folder) -> list[str]:
    return [stem_of(name) for name in part_names(folder)]


def test_many_parts_become_one_as_far_as_training_may_go_back(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "MANY_PARTS", 2)
    table = MetricTable(folder)
    for first in (1, 5, 9):
        write(table, range(first, first + 4))
    before = read_metrics(folder, 12)
    merge_many(folder, 8)  # a resume from step 8 deletes files that reach beyond it
    assert stems(folder) == ["000000001-000000008", "000000009-000000012"]
    assert read_metrics(folder, 12).equals(before)
    merge_many(folder, None)
    assert stems(folder) == ["000000001-000000012"]
    assert read_metrics(folder, 12).equals(before)
    write(MetricTable(folder, 12), range(13, 15))
    assert missing_steps(part_names(folder), 14) == ""


def test_what_a_merge_that_was_cut_off_has_left_is_removed(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "MANY_PARTS", 2)
    table = MetricTable(folder)
    for first in (1, 5):
        write(table, range(first, first + 4))
    before, deleted = read_metrics(folder, 8), Folder.delete

    def killed(self: Folder, name: str, *rest: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Folder, "delete", killed)
    with pytest.raises(KeyboardInterrupt):
        merge_many(folder, None)
    monkeypatch.setattr(Folder, "delete", deleted)
    assert read_metrics(folder, 8).equals(before)
    merge_many(folder, None)
    assert len(folder.within("metrics").names("*.parquet")) == 1
    assert read_metrics(folder, 8).equals(before)


@pytest.mark.integration
def test_every_step_says_which_rows_it_was_given(small_layout: Layout, tmp_path: Path) -> None:
    layout = root_with("small", tmp_path, small_layout)
    options = f"--total-steps 5 --execution.validate-every 0 --root {tmp_path} --seed 3"
    done = run_here(main, *RUN, *options.split())
    assert done.returncode == 0, done.stderr
    (run,) = list_runs(layout)
    said = read_metrics(run).column("rows_digest").to_pylist()
    with make_loader(open_dataset("small", layout, "train"), global_batch_size=8, seed=3) as batches:
        assert said == [int(batch_fingerprint(next(batches))) for _ in range(5)]
    assert len(set(said)) == 5
