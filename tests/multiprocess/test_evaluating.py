"""Processes that evaluate a run together write the same tables as one process, row for row."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Collection, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import run_here, small_request
from tests.multiprocess.processes import (
    EVALUATE,
    LIMIT_S,
    RUN,
    ended,
    ended_well,
    evaluate_together,
    free_address,
    start,
    start_evaluating,
)
from tests.trm_data.kinds.test_arc import request as arc_request
from tests.trm_eval.test_votes import arc_folder
from trm_data.building.flow import build_dataset
from trm_data.errors import Exit
from trm_data.storage.root import Layout, resolve_root
from trm_data.storage.store import Folder
from trm_eval import cli as eval_cli
from trm_eval.tables.query import query_results
from trm_train import cli as train_cli
from trm_train.checkpoint.manager import FOLDER, restore_weights, write_weights
from trm_train.checkpoint.tree import weights_tree
from trm_train.mesh import make_mesh
from trm_train.runs.record import list_runs, read_record
from trm_train.state import abstract_weights

MEASURED = ("seconds", "compile_seconds", "created_at")
"""Columns of `evals` that contain durations and times."""
TRAIN = ["--split", "train"]
"""360 rows: several batches; in the last one, some processes have only padding."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A root with a dataset of 360, 8 and 12 rows and a run on it; tests must not change it."""
    layout = resolve_root(tmp_path_factory.mktemp("trained"))
    build_dataset(small_request(aug=14), layout, shard_examples=200)
    train(layout, [])
    make_restless(list_runs(layout)[0], step=6)
    return layout


def make_restless(run: Folder, step: int) -> None:
    """Replace a checkpoint's weights, so that rows halt at different supervision steps, and some never."""
    record = read_record(run)
    _, shapes = abstract_weights(record.config, record.input_spec, make_mesh())
    tree, meta = restore_weights(run, step, weights_tree(shapes))
    rng = np.random.default_rng(0)

    def loud(leaf: jax.Array) -> jax.Array:
        values = rng.normal(0, 1, leaf.shape) if leaf.ndim > 1 else np.full(leaf.shape, -0.2)
        return jnp.asarray(values, leaf.dtype)

    tree["ema"] = {**tree["ema"], "q_head": jax.tree.map(loud, tree["ema"]["q_head"])}
    run.store.delete_folder(f"{run.path}/{FOLDER}/weights/{step}")
    write_weights(run, tree, meta)


def train(layout: Layout, options: list[str]) -> None:
    steps = ["--total-steps", "6", "--execution.validate-every", "3", "--execution.checkpoint-every", "3"]
    done = run_here(train_cli.main, *RUN, *steps, *options, "--root", layout.place)
    assert done.returncode == 0, done.stderr


def evaluate_alone(layout: Layout, options: list[str]) -> None:
    ended_well([start(["run", "quickstart", *options, "--root", layout.place], EVALUATE)])


def copy_of(layout: Layout, folder: Path) -> Layout:
    shutil.copytree(layout.place, folder, symlinks=True)
    return resolve_root(folder)


def tables(layout: Layout) -> dict[str, list[dict[str, Any]]]:
    """Return all rows of all files of every result table, including files that no row refers to."""
    found: dict[str, list[dict[str, Any]]] = {}
    for folder in sorted(Path(layout.results.uri()).iterdir()):
        paths = [path for path in sorted(folder.rglob("*.parquet")) if not path.name.startswith(".tmp-")]
        files = [pq.ParquetFile(path).read() for path in paths]
        found[folder.name] = pa.concat_tables(files).to_pylist() if files else []
    for row in found.get("evals", []):
        for name in MEASURED:
            row.pop(name)
    found.get("evals", []).sort(key=lambda row: row["evaluation"])
    return found


def check_same_tables(layout: Layout, reference: Layout) -> None:
    """Check that all rows are equal, in order, with the same file names and digests; sums of losses may round."""
    ours, theirs = tables(layout), tables(reference)
    assert ours.keys() == theirs.keys()
    for row, wanted in zip(ours["evals"], theirs["evals"], strict=True):
        assert row.pop("lm_loss_sum") == pytest.approx(wanted.pop("lm_loss_sum"), rel=1e-6)
    for table, rows in theirs.items():
        assert rows, table
        assert ours[table] == rows, table


def check_as_one(trained: Layout, folder: Path, count: int, options: list[str]) -> None:
    """Evaluate in one process and in several, and compare."""
    alone, together = copy_of(trained, folder / "alone"), copy_of(trained, folder / "together")
    evaluate_alone(alone, options)
    evaluate_together(Path(together.place), count, options)
    check_same_tables(together, alone)


def test_two_processes_write_what_one_writes(trained: Layout, tmp_path: Path) -> None:
    alone, together = copy_of(trained, tmp_path / "alone"), copy_of(trained, tmp_path / "together")
    first, second = evaluate_together(tmp_path / "together", 2, TRAIN)
    evaluate_alone(alone, TRAIN)
    check_same_tables(together, alone)
    counted = query_results(together, "SELECT count(*), count(DISTINCT row) FROM all_predictions").rows
    assert counted == [(360, 360)]
    assert "of 360" in first.stdout
    assert second.stdout == ""
    assert "2 of 2 processes joined" in second.stderr
    assert "Traceback" not in first.stderr + second.stderr


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 8])
def test_any_number_of_processes_writes_the_same(trained: Layout, tmp_path: Path, count: int) -> None:
    check_as_one(trained, tmp_path, count, TRAIN)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ["--mode", "halting"],
        ["--samples", "3", "--select", "mode"],
        ["--traces", "5", "--latents"],
        ["--limit", "7", "--subset-seed", "1", "--identifiers", "random", "--weights", "raw"],
        ["--checkpoint", "all", "--split", "validation"],
    ],
    ids=lambda options: options[0],
)
def test_every_way_to_answer_writes_the_same(trained: Layout, tmp_path: Path, options: list[str]) -> None:
    rows = [] if "--split" in options or "--traces" in options else TRAIN
    check_as_one(trained, tmp_path, 3, [*options, *rows])


@pytest.mark.slow
def test_no_answer_is_rounded_otherwise(trained: Layout, tmp_path: Path) -> None:
    """With the default batch, and enough steps for a difference in the last bit to change answers."""
    alone, together = copy_of(trained, tmp_path / "alone"), copy_of(trained, tmp_path / "together")
    options, program = (
        [*TRAIN, "--steps", "60"],
        "import sys; from trm_eval.cli import main; main(sys.argv[1:])",
    )
    ended_well([start(["run", "quickstart", *options, "--root", alone.place], program)])
    place = ["--root", together.place, "--coordinator", free_address(), "--num-processes", "2"]
    ended_well(
        [start(["run", "quickstart", *options, *place, "--process-id", str(i)], program) for i in range(2)]
    )
    check_same_tables(together, alone)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "options"), [(2, []), (8, []), (4, ["--traces", "400"])])
def test_votes_and_traces_are_those_of_one_process(tmp_path: Path, count: int, options: list[str]) -> None:
    """Puzzles with their own identifiers, whose table rows are in other processes."""
    layout = resolve_root(tmp_path / "root")
    build_dataset(arc_request(arc_folder(tmp_path / "arc"), aug=5, val_size=1), layout)
    train(layout, ["--data.dataset", "arc", "--model.puzzle-emb-ndim", "16"])
    check_as_one(layout, tmp_path, count, options)


@pytest.mark.slow
def test_processes_that_evaluate_other_things_are_named(trained: Layout, tmp_path: Path) -> None:
    layout = copy_of(trained, tmp_path / "root")
    place = ["--root", layout.place, "--coordinator", free_address(), "--num-processes", "3"]
    done = ended(
        [
            start(["run", "quickstart", *place, "--process-id", str(index), "--limit", limit], EVALUATE)
            for index, limit in enumerate(["4", "4", "5"])
        ]
    )
    for one in done:
        assert one.returncode == Exit.ERROR
        assert "what is evaluated: the processes belong to different runs" in one.stderr
        assert "limit is 5, of process 0" in one.stderr
        assert "process 2 (" in one.stderr
    assert layout.results.names("**/*.parquet") == []


LONG = [*TRAIN, "--checkpoint", "all", "--steps", "20"]
"""Two evaluations of some seconds each, almost entirely inside jax programs."""


@contextmanager
def evaluating(
    layout: Layout, count: int, options: list[str]
) -> Generator[list[subprocess.Popen[str]], None, None]:
    """Start all processes of an evaluation; leave none behind."""
    processes = start_evaluating(Path(layout.place), count, options)
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()


EVALS = "evals/*/*/*.parquet"


def wait_for(layout: Layout, pattern: str = EVALS, before: Collection[str] = ()) -> None:
    """Wait for a new result; once it is a row of `evals`, the second evaluation is running."""
    deadline = time.monotonic() + LIMIT_S
    while not set(layout.results.names(pattern)) - set(before):
        assert time.monotonic() < deadline, f"no {pattern} in {LIMIT_S:.0f} s"
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("signalled", [0, 1])
def test_a_signal_to_one_process_ends_all(trained: Layout, tmp_path: Path, signalled: int) -> None:
    layout = copy_of(trained, tmp_path / "root")
    with evaluating(layout, 3, LONG) as processes:
        wait_for(layout)
        processes[signalled].send_signal(signal.SIGTERM)
        done = ended(processes)
    assert all(one.returncode for one in done), "\n".join(one.stderr for one in done)
    assert len(layout.results.names(EVALS)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("killed", [0, 1])
def test_a_killed_process_ends_the_others(trained: Layout, tmp_path: Path, killed: int) -> None:
    """Their step fails, or jax aborts them: at once with process 0, else 100 s after its last heartbeat."""
    layout = copy_of(trained, tmp_path / "root")
    with evaluating(layout, 3, LONG) as processes:
        wait_for(layout)
        processes[killed].kill()
        done = ended(processes)
    others = [one for index, one in enumerate(done) if index != killed]
    codes = {one.returncode for one in others}
    assert codes <= {-signal.SIGABRT, Exit.STALLED}, "\n".join(one.stderr for one in others)


def test_a_timeout_that_is_none_is_refused() -> None:
    together = ["--coordinator", "127.0.0.1:1", "--num-processes", "2", "--process-id", "0"]
    done = run_here(eval_cli.main, "run", "quickstart", *together, "--join-s", "0")
    assert done.returncode == Exit.ERROR
    assert "--join-s 0: expected more than 0 seconds" in done.stderr
