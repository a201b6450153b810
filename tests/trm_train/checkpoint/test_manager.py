"""Checkpoints are read back to the bit or refused; copies that were cut off are none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

from tests.trm_train.test_loop import TINY, run
from trm_data.storage.root import Layout, resolve_root
from trm_data.storage.store import Folder
from trm_data.sync import sync_datasets
from trm_train.checkpoint.manager import (
    COMMITTED,
    COPYING,
    FORMAT_VERSION,
    CheckpointMeta,
    Checkpoints,
    fingerprints,
    restore_weights,
    saved_steps,
    weights_steps,
)
from trm_train.checkpoint.tree import state_tree, weights_tree
from trm_train.errors import CheckpointError
from trm_train.run.start import TrainResult
from trm_train.state import TrainState, init_state


@pytest.fixture(scope="module")
def finished(small_layout: Layout, tmp_path_factory: pytest.TempPathFactory) -> TrainResult:
    """A run with checkpoints at 4, 8 and 12 steps. Tests must not change it."""
    layout = resolve_root(tmp_path_factory.mktemp("checkpoints"))
    sync_datasets(small_layout, layout, ["small"])
    return run(layout)


@pytest.fixture(scope="module")
def state(finished: TrainResult) -> TrainState:
    """A state of the run's shapes, at step 0."""
    return init_state(TINY, finished.record.input_spec, TINY.data.global_batch_size)[1]


@pytest.fixture
def copied(finished: TrainResult, tmp_path: Path) -> Folder:
    """A copy of the run's folder, which a test may change."""
    root = resolve_root(tmp_path)
    shutil.copytree(finished.folder.uri(""), root.runs.within("run").uri(""))
    return root.runs.within("run")


def meta_of(folder: Folder, kind: str, step: int) -> Path:
    return next(Path(folder.uri(f"checkpoints/{kind}/{step}")).rglob("metadata"))


def test_what_was_saved_comes_back_to_the_bit(state: TrainState, tmp_path: Path) -> None:
    folder = resolve_root(tmp_path).runs.within("run")
    meta = CheckpointMeta(step=0, identity="i", content_digest="c", identifiers_digest="d", tracking_id="t")
    checkpoints = Checkpoints(folder)
    checkpoints.save(state, meta)
    checkpoints.wait()
    restored, found = checkpoints.restore(state)
    checkpoints.close()
    assert found == meta
    assert fingerprints(state_tree(restored)) == fingerprints(state_tree(state))
    for before, after in zip(jax.tree.leaves(state), jax.tree.leaves(restored), strict=True):
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


def test_only_so_many_weights_are_kept_as_asked_for(state: TrainState, tmp_path: Path) -> None:
    folder = resolve_root(tmp_path).runs.within("run")
    checkpoints = Checkpoints(folder, keep_weights=1)
    for step in (1, 2, 3):
        meta = CheckpointMeta(
            step=step, identity="", content_digest="", identifiers_digest="", tracking_id=""
        )
        checkpoints.save(state, meta)
    checkpoints.close()
    assert weights_steps(folder) == [3]


def test_a_checkpoint_whose_arrays_changed_is_refused(copied: Folder, state: TrainState) -> None:
    meta = meta_of(copied, "weights", 12)
    value = json.loads(meta.read_text())
    value["fingerprints"]["ema.lm_head.kernel"] ^= 1
    meta.write_text(json.dumps(value))
    with pytest.raises(CheckpointError, match=r"ema\.lm_head"):
        restore_weights(copied, 12, weights_tree(state))
    with pytest.raises(CheckpointError, match=r"no weights checkpoint at step 5 \(there are: 4, 8, 12\)"):
        restore_weights(copied, 5, weights_tree(state))


def test_a_checkpoint_of_a_newer_version_is_refused(copied: Folder, state: TrainState) -> None:
    meta = meta_of(copied, "weights", 12)
    meta.write_text(json.dumps({**json.loads(meta.read_text()), "format_version": FORMAT_VERSION + 1}))
    with pytest.raises(CheckpointError, match="was written by a newer version of trm-train; upgrade it"):
        restore_weights(copied, 12, weights_tree(state))


def test_a_damaged_newest_checkpoint_says_where_to_go_on_from(copied: Folder, state: TrainState) -> None:
    meta = meta_of(copied, "resume", 12)
    value = json.loads(meta.read_text())
    value["fingerprints"]["key"] ^= 1
    meta.write_text(json.dumps(value))
    checkpoints = Checkpoints(copied)
    with pytest.raises(CheckpointError, match=r"those that were saved: key; delete it to go on from step 8"):
        checkpoints.restore(state)
    checkpoints.close()


def test_a_folder_without_checkpoints(state: TrainState, tmp_path: Path) -> None:
    folder = resolve_root(tmp_path).runs.within("run")
    checkpoints = Checkpoints(folder)
    assert checkpoints.latest_step() is None
    with pytest.raises(CheckpointError, match="holds no checkpoint to resume from"):
        checkpoints.restore(state)
    checkpoints.close()
    with pytest.raises(CheckpointError, match=r"step 4 \(the run has none yet\)"):
        restore_weights(folder, 4, weights_tree(state))


def test_half_copied_checkpoints_go(copied: Folder) -> None:
    Path(copied.uri(f"checkpoints/resume/12/{COMMITTED}")).unlink()
    copied.write(COPYING, b"")
    checkpoints = Checkpoints(copied)
    assert checkpoints.latest_step() == 8
    checkpoints.close()
    assert copied.read(COPYING) is None


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
