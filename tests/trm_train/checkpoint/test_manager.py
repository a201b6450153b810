"""Checkpoints are restored bit for bit or refused; interrupted copies are not checkpoints.

Which weights are kept: the newest, those at an interval, and the best.
Messages about Orbax's unfinished work are suppressed, even with other hooks for unraisable exceptions.
"""

from __future__ import annotations

import dataclasses
import json
import random
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from tests.conftest import run_here
from tests.multiprocess.processes import RUN
from trm_data.storage.atomic import with_digest
from trm_data.storage.root import Layout, resolve_root
from trm_data.storage.store import Folder
from trm_train.checkpoint.manager import (
    COMMITTED,
    FORMAT_VERSION,
    CheckpointMeta,
    Checkpoints,
    Keep,
    fingerprints,
    restore_weights,
    resume_steps,
    saved_steps,
    weights_steps,
)
from trm_train.checkpoint.tree import state_tree, weights_tree
from trm_train.cli import main
from trm_train.errors import CheckpointError
from trm_train.metrics import read_metrics
from trm_train.runs.record import list_runs
from trm_train.state import TrainState
from trm_train.training.start import TrainResult


@pytest.fixture
def copied(finished: TrainResult, tmp_path: Path) -> Folder:
    """A copy of the run's folder that a test may change."""
    root = resolve_root(tmp_path)
    shutil.copytree(finished.folder.uri(), root.runs.within("run").uri())
    return root.runs.within("run")


def meta_of(folder: Folder, kind: str, step: int) -> Path:
    return next(Path(folder.uri(f"checkpoints/{kind}/{step}")).rglob("metadata"))


def test_what_was_saved_comes_back_to_the_bit(state: TrainState, tmp_path: Path) -> None:
    folder = resolve_root(tmp_path).runs.within("run")
    meta = CheckpointMeta(step=0, identity="i", content_digest="c", identifiers_digest="d")
    checkpoints = Checkpoints(folder)
    checkpoints.save(state, meta)
    checkpoints.wait()
    restored = checkpoints.restore(state)
    checkpoints.close()
    assert (restored.meta, restored.problems) == (meta, [])
    assert fingerprints(state_tree(restored.state)) == fingerprints(state_tree(state))
    for before, after in zip(jax.tree.leaves(state), jax.tree.leaves(restored.state), strict=True):
        np.testing.assert_array_equal(before, after)
    weights, found = restore_weights(folder, 0, weights_tree(state))
    assert found == meta
    assert fingerprints(weights) == fingerprints(weights_tree(state))


def test_two_resume_checkpoints_and_all_weights_are_kept(finished: TrainResult) -> None:
    names = {
        name.rsplit("/", 1)[0] for name in finished.folder.within("checkpoints").names(f"*/*/{COMMITTED}")
    }
    assert names == {"resume/8", "resume/12", "weights/4", "weights/8", "weights/12"}
    assert weights_steps(finished.folder) == saved_steps(finished.folder) == [4, 8, 12]


def test_a_step_below_the_latest_is_saved_too(state: TrainState, tmp_path: Path) -> None:
    """Orbax alone skips it and returns False."""
    folder = resolve_root(tmp_path).runs.within("run")
    checkpoints = Checkpoints(folder, Keep())
    for step in (20, 15):
        meta = CheckpointMeta(step=step, identity="", content_digest="", identifiers_digest="")
        checkpoints.save(state, meta)
    checkpoints.close()
    assert weights_steps(folder) == [15, 20]


def change(meta: Path, **changes: Any) -> None:
    """Change a meta and update its digest."""
    meta.write_text(json.dumps(with_digest({**json.loads(meta.read_text()), **changes})))


def test_a_checkpoint_whose_arrays_changed_is_refused(copied: Folder, state: TrainState) -> None:
    meta = meta_of(copied, "weights", 12)
    prints = json.loads(meta.read_text())["fingerprints"]
    change(meta, fingerprints={**prints, "ema.lm_head.kernel": prints["ema.lm_head.kernel"] ^ 1})
    with pytest.raises(CheckpointError, match=r"ema\.lm_head.*there are others: 4, 8"):
        restore_weights(copied, 12, weights_tree(state))
    with pytest.raises(CheckpointError, match=r"no weights checkpoint at step 5 \(there are: 4, 8, 12\)"):
        restore_weights(copied, 5, weights_tree(state))


@pytest.mark.parametrize(
    "name",
    ["step", "fingerprints", "format_version"],
)
def test_nothing_in_the_meta_can_change_unseen(copied: Folder, state: TrainState, name: str) -> None:
    meta = meta_of(copied, "resume", 12)
    value = json.loads(meta.read_text())
    changed = {
        "step": 13,
        "format_version": FORMAT_VERSION + 1,
        "fingerprints": {**value["fingerprints"], "key": 1},
    }.get(name, "0" * 64)
    meta.write_text(json.dumps({**value, name: changed}))
    checkpoints = Checkpoints(copied)
    restored = checkpoints.restore(state)
    checkpoints.close()
    assert restored.meta.step == 8
    assert "resume/12: its meta was changed (its digest differs)" in restored.problems[0]


@pytest.mark.parametrize("name", ["step", "fingerprints", "format_version", "identity"])
def test_what_a_meta_lacks_is_an_error(copied: Folder, state: TrainState, name: str) -> None:
    meta = meta_of(copied, "weights", 12)
    value = json.loads(meta.read_text())
    del value[name]
    meta.write_text(json.dumps(value))
    with pytest.raises(CheckpointError, match="weights/12: its meta"):
        restore_weights(copied, 12, weights_tree(state))


def test_folder_meta_and_state_must_be_of_the_same_step(copied: Folder, state: TrainState) -> None:
    change(meta_of(copied, "resume", 12), step=13)
    Path(copied.uri("checkpoints/resume/12")).rename(copied.uri("checkpoints/resume/13"))
    Path(copied.uri("checkpoints/weights/12")).rename(copied.uri("checkpoints/weights/13"))
    checkpoints = Checkpoints(copied)
    restored = checkpoints.restore(state)
    checkpoints.close()
    assert restored.meta.step == 8
    assert restored.problems == [f"{copied.where('checkpoints/resume/13')}: holds a state after 12 steps"]
    with pytest.raises(CheckpointError, match="weights/13: its meta names step 12"):
        restore_weights(copied, 13, weights_tree(state))


def test_checkpoints_of_format_1_had_no_digest(copied: Folder, state: TrainState) -> None:
    meta = meta_of(copied, "weights", 12)
    value = json.loads(meta.read_text())
    del value["digest"]
    meta.write_text(json.dumps({**value, "format_version": 1}))
    assert restore_weights(copied, 12, weights_tree(state))[1].step == 12
    meta.write_text(json.dumps(value))
    with pytest.raises(CheckpointError, match="its digest differs"):
        restore_weights(copied, 12, weights_tree(state))


def files_of(copied: Folder, kind: str, step: int) -> list[Path]:
    paths = [path for path in Path(copied.uri(f"checkpoints/{kind}/{step}")).rglob("*") if path.is_file()]
    return sorted(path for path in paths if path.name != COMMITTED and path.stat().st_size)


@pytest.mark.integration
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # warnings of abandoned reads in tensorstore
@pytest.mark.parametrize("harm", ["missing", "short", "flipped"])
def test_any_file_of_the_newest_checkpoint_may_be_damaged(
    copied: Folder, state: TrainState, harm: str, tmp_path: Path
) -> None:
    """The damage is reported, or the restored state equals one of the saved states."""
    whole = fingerprints_of_steps(copied, state)
    draws = random.Random(harm)
    for number, name in enumerate(path.relative_to(copied.uri()) for path in files_of(copied, "resume", 12)):
        root = resolve_root(tmp_path / f"{harm}{number}")
        folder = root.runs.within("run")
        shutil.copytree(copied.uri(), folder.uri())
        path = Path(folder.uri()) / name
        data = bytearray(path.read_bytes())
        if harm == "missing":
            path.unlink()
        elif harm == "short":
            path.write_bytes(data[: len(data) // 2])
        else:
            data[draws.randrange(len(data))] ^= 1 << draws.randrange(8)
            path.write_bytes(data)
        checkpoints = Checkpoints(folder)
        restored = checkpoints.restore(state)
        newest = checkpoints.latest_step()
        checkpoints.close()
        step = restored.meta.step
        assert fingerprints(state_tree(restored.state)) == whole[step], name
        if step == 8:
            assert len(restored.problems) == 1, name
            assert "resume/12: " in restored.problems[0]
            assert newest == 8
        else:
            assert restored.problems == [], name


def test_a_newest_checkpoint_of_a_newer_version_is_not_passed_over(copied: Folder, state: TrainState) -> None:
    change(meta_of(copied, "resume", 12), format_version=FORMAT_VERSION + 1)
    checkpoints = Checkpoints(copied)
    with pytest.raises(CheckpointError, match="was written by a newer version of trm-train; upgrade it"):
        checkpoints.restore(state)
    checkpoints.close()
    assert saved_steps(copied) == [4, 8, 12]


def test_a_damaged_checkpoint_goes_when_the_next_is_saved(copied: Folder, state: TrainState) -> None:
    meta_of(copied, "resume", 12).write_text("{")
    checkpoints = Checkpoints(copied)
    restored = checkpoints.restore(state)
    assert Path(copied.uri("checkpoints/resume/12")).is_dir()
    checkpoints.save(restored.state, dataclasses.replace(restored.meta, step=10))
    checkpoints.close()
    assert weights_steps(copied) == [4, 8, 10]  # the weights saved with it are deleted too
    names = sorted(path.name for path in Path(copied.uri("checkpoints/resume")).iterdir())
    assert names == ["10", "8"]


def fingerprints_of_steps(folder: Folder, state: TrainState) -> dict[int, dict[str, int]]:
    metas = {step: json.loads(meta_of(folder, "resume", step).read_text()) for step in (8, 12)}
    return {step: meta["fingerprints"] for step, meta in metas.items()}


def test_weights_that_no_state_stands_beside_go_when_the_next_is_saved(
    copied: Folder, state: TrainState
) -> None:
    """A kill came between the two kinds: training repeats that step and may save other weights there."""
    shutil.rmtree(copied.uri("checkpoints/resume/12"))
    left = Path(copied.uri("checkpoints/weights/12/left"))
    left.touch()
    checkpoints = Checkpoints(copied)
    restored = checkpoints.restore(state)
    assert restored is not None
    assert (restored.meta.step, restored.problems) == (8, [])
    assert weights_steps(copied) == [4, 8, 12]
    later = dataclasses.replace(restored.state, step=restored.state.step + 4)
    checkpoints.save(later, dataclasses.replace(restored.meta, step=12))
    checkpoints.wait()
    checkpoints.close()
    assert (weights_steps(copied), resume_steps(copied)) == ([4, 8, 12], [8, 12])
    assert not left.exists()


def test_with_no_whole_checkpoint_nothing_is_begun(copied: Folder, state: TrainState) -> None:
    for step in (8, 12):
        meta_of(copied, "resume", step).write_text("{")
    checkpoints = Checkpoints(copied)
    with pytest.raises(CheckpointError, match=r"(?s)resume/12: .*resume/8: .*Start over with --resume never"):
        checkpoints.restore(state)
    checkpoints.close()


def test_a_folder_without_checkpoints(state: TrainState, tmp_path: Path) -> None:
    folder = resolve_root(tmp_path).runs.within("run")
    checkpoints = Checkpoints(folder)
    assert checkpoints.latest_step() is None
    assert checkpoints.restore(state) is None
    checkpoints.close()
    with pytest.raises(CheckpointError, match=r"step 4 \(the run has none yet\)"):
        restore_weights(folder, 4, weights_tree(state))


def test_fingerprints_see_every_bit_and_every_place() -> None:
    base = {
        "a": jax.numpy.arange(12, dtype=jax.numpy.float32).reshape(3, 4),
        "b": jax.numpy.array([True, False]),
    }
    before = fingerprints(base)
    assert set(before) == {"a", "b"}
    swapped = base["a"].at[0, 1].set(2.0).at[0, 2].set(1.0)
    nudged = jax.numpy.asarray(np.nextafter(np.asarray(base["a"]), np.float32(99)))
    for other in (swapped, nudged, -base["a"], base["a"].T.reshape(3, 4)):
        assert fingerprints({**base, "a": other})["a"] != before["a"]
    assert fingerprints({**base, "b": ~base["b"]})["b"] != before["b"]


STEPS = [10, 20, 30, 40, 50]
SCORES = {10: 0.1, 20: 0.9, 30: 0.3, 40: 0.9}


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        (Keep(), STEPS),
        (Keep(every=20), STEPS),
        (Keep(1), [50]),
        (Keep(2, best=False, scores=SCORES), [40, 50]),
        (Keep(1, scores=SCORES), [40, 50]),  # tie: the later one
        (Keep(1, scores={10: 0.5, 99: 0.9}), [10, 50]),  # deleted, or not validated
        (Keep(1, every=20, scores={30: 0.1}), [20, 30, 40, 50]),
        (Keep(1, scores={10: float("nan"), 20: 0.5, 30: float("nan")}), [20, 50]),
        (Keep(9), STEPS),
    ],
)
def test_what_stays(keep: Keep, kept: list[int]) -> None:
    assert sorted(keep.kept(STEPS)) == kept


@pytest.mark.integration
def test_a_run_keeps_the_newest_weights_and_the_best_over_two_starts(
    small_layout: Layout, tmp_path: Path
) -> None:
    (tmp_path / "datasets").symlink_to(small_layout.dataset("small").here.parent)
    options = [*RUN, "--root", str(tmp_path), "--execution.validate-every", "1", "--optim.lr-min-ratio", "1"]
    options += ["--execution.checkpoint-every", "1", "--execution.keep-weights", "1", "--total-steps", "4"]
    for more in (["--execution.keep-weights-every", "3"], ["--extend", "8"]):
        done = run_here(main, *options, *more)
        assert done.returncode == 0, done.stderr
        (run,) = list_runs(resolve_root(tmp_path))
        rows = [row for row in read_metrics(run).to_pylist() if row["split"] == "validation"]
        last = rows[-1]["step"]
        # The best is either kept from before, or came later.
        best = max(rows, key=lambda row: (row["exact_count"], row["step"]))["step"]
        assert set(weights_steps(run)) == ({3, best, last} if last == 4 else {best, last}), rows
        assert resume_steps(run) == [last - 1, last]
