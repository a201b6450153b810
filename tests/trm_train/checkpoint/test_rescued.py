"""A state that a host has kept is the same to the bit, or none."""

from __future__ import annotations

import dataclasses
import random
import shutil
import threading
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest

from trm_data.command import Exit
from trm_data.storage.root import resolve_root
from trm_data.storage.store import Folder
from trm_train.checkpoint.manager import CheckpointMeta, Checkpoints
from trm_train.checkpoint.rescued import (
    KEPT,
    STATE,
    find_rescued,
    forget_rescued,
    load_rescued,
    place_of,
    rescue_state,
)
from trm_train.checkpoint.tree import state_tree
from trm_train.hosts.together import Hosts
from trm_train.metrics.table import Part, add_kept_rows, keep_rows, part_names, read_metrics
from trm_train.runs.resume import meta_at
from trm_train.state import TrainState
from trm_train.training import rescue
from trm_train.training.rescue import restore_rescued
from trm_train.training.start import TrainResult

META = CheckpointMeta(
    step=7, identity="i", content_digest="c", identifiers_digest="d", tracking_id="t", run="r"
)
ALONE = Hosts()


@pytest.fixture
def folder(finished: TrainResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A copy of the run's folder, on a machine with an empty cache."""
    monkeypatch.setenv("TRM_CACHE", str(tmp_path / "cache"))
    root = resolve_root(tmp_path / "root")
    shutil.copytree(finished.folder.uri(), root.runs.within("run").uri())
    return root.runs.within("run")


@pytest.mark.integration
def test_it_is_read_back_to_the_bit(folder: Folder, state: TrainState) -> None:
    assert find_rescued(folder, ALONE) is None
    rescue_state(folder, ALONE, state, META, "then")
    kept = find_rescued(folder, ALONE)
    assert kept is not None
    assert (kept.meta, kept.worker, kept.workers) == (META, 0, 1)
    again = load_rescued(folder, ALONE, kept, state)
    assert again is not None
    for wanted, found in zip(
        jax.tree.leaves(state_tree(state)), jax.tree.leaves(state_tree(again)), strict=True
    ):
        assert (wanted.dtype, wanted.sharding) == (found.dtype, found.sharding)
        assert np.asarray(wanted).tobytes() == np.asarray(found).tobytes()
    forget_rescued(folder, ALONE)
    assert find_rescued(folder, ALONE) is None
    forget_rescued(folder, ALONE)


def test_it_belongs_to_one_run_and_one_process(folder: Folder, state: TrainState) -> None:
    rescue_state(folder, ALONE, state, META, "then")
    assert find_rescued(folder.within("other"), ALONE) is None
    assert find_rescued(folder, Hosts(index=1, count=2)) is None


def test_what_is_not_whole_is_none(folder: Folder, state: TrainState) -> None:
    chance = random.Random(0)
    for name in (STATE, KEPT):
        for _ in range(10):
            rescue_state(folder, ALONE, state, META, "then")
            path = place_of(folder, ALONE) / name
            content = bytearray(path.read_bytes())
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
            path.write_bytes(content)
            assert find_rescued(folder, ALONE) is None, name
        path.write_bytes(content[: len(content) // 2])
        assert find_rescued(folder, ALONE) is None, name
        path.unlink()
        assert find_rescued(folder, ALONE) is None, name


def test_of_another_layout_it_is_none(folder: Folder, state: TrainState) -> None:
    rescue_state(folder, ALONE, state, META, "then")
    kept = find_rescued(folder, ALONE)
    assert kept is not None
    other = dataclasses.replace(state, step=np.zeros(2, np.int32))
    like = jax.tree.map(lambda leaf: jax.numpy.asarray(leaf), other)
    assert load_rescued(folder, ALONE, kept, like) is None


def test_rows_are_added_once(folder: Folder, tmp_path: Path) -> None:
    """Those that parts hold are not added; steps that nobody holds are named, and then nothing is written."""
    before = read_metrics(folder).to_pylist()
    rows = [row for row in before if row["step"] > 8]
    keep_rows(Part(9, 12, rows), tmp_path / "rows.parquet")
    assert add_kept_rows(folder, tmp_path / "rows.parquet", 12) == ""
    assert read_metrics(folder).to_pylist() == before  # all are there
    for part in part_names(folder):
        if part.split("-")[1].startswith("000000012"):
            folder.within("metrics").delete(part)
    assert add_kept_rows(folder, None, 12) != ""
    for _ in range(2):
        assert add_kept_rows(folder, tmp_path / "rows.parquet", 12) == ""
        assert read_metrics(folder).to_pylist() == before
    for part in part_names(folder):
        folder.within("metrics").delete(part)
    assert add_kept_rows(folder, tmp_path / "rows.parquet", 12) == "1 to 8"
    assert part_names(folder) == []


def test_a_run_that_began_anew_goes_on_from_nothing_that_the_one_before_kept(
    folder: Folder, finished: TrainResult, state: TrainState
) -> None:
    record, said, meta = finished.record, [], meta_at(finished.record, 14, "t")
    checkpoints = Checkpoints(folder)
    rescue_state(folder, ALONE, state, meta, "another time")
    again = partial(restore_rescued, folder, record, checkpoints, ALONE, state, None, said.append, limit_s=0)
    assert again() is None
    assert find_rescued(folder, ALONE) is None
    assert not said
    rescue_state(folder, ALONE, state, meta, record.created_at)
    again()
    checkpoints.close()
    assert said, "of the same run it is looked at"


def test_saving_what_was_kept_may_not_take_for_ever(
    folder: Folder, finished: TrainResult, state: TrainState, monkeypatch: pytest.MonkeyPatch
) -> None:
    class EndedError(Exception):
        pass

    ended: list[int] = []
    over = threading.Event()

    def end(code: int) -> None:
        ended.append(code)
        over.set()

    def hang() -> None:
        assert over.wait(60)
        raise EndedError

    monkeypatch.setattr(rescue, "end_now", end)
    monkeypatch.setattr(rescue, "add_kept_rows", lambda *_: [])
    checkpoints = Checkpoints(folder)
    monkeypatch.setattr(checkpoints, "wait", hang)
    rescue_state(folder, ALONE, state, meta_at(finished.record, 14, "t"), finished.record.created_at)
    said: list[str] = []
    hosts = Hosts(say=said.append)
    with pytest.raises(EndedError):
        restore_rescued(folder, finished.record, checkpoints, hosts, state, None, said.append, limit_s=0.5)
    assert ended == [Exit.STALLED]
    assert find_rescued(folder, ALONE) is not None
    assert "it stays, and the same command tries again" in said[-1]
