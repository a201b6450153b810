"""Several steps per dispatch, and rows held by devices: the same steps, and no compilation on the way."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax.monitoring
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.roots import root_with
from tests.trm_train.test_loop import TINY, final_state, metrics_without_clock, run
from trm_data.loader.dataset import open_dataset
from trm_data.storage.root import Layout
from trm_train.config.run import RunConfig
from trm_train.config.values import Curriculum
from trm_train.mesh import make_mesh
from trm_train.metrics import read_metrics
from trm_train.training import loop
from trm_train.training.observe import Pace
from trm_train.training.start import Prefetcher, TrainResult, dispatches, hold_rows, numbered


def carried_out(config: RunConfig = TINY, **execution: Any) -> RunConfig:
    return dataclasses.replace(config, execution=dataclasses.replace(config.execution, **execution))


@pytest.fixture
def root(small_layout: Layout, tmp_path: Path) -> Layout:
    return root_with("small", tmp_path, small_layout)


@pytest.fixture(scope="module")
def one_by_one(small_layout: Layout, tmp_path_factory: pytest.TempPathFactory) -> TrainResult:
    return run(root_with("small", tmp_path_factory.mktemp("one"), small_layout))


@pytest.fixture(scope="module")
def by_five(small_layout: Layout, tmp_path_factory: pytest.TempPathFactory) -> TrainResult:
    """Dispatches of 4, 2, 2 and 4 steps, because something is due after every 4 and 6 steps."""
    layout = root_with("small", tmp_path_factory.mktemp("five"), small_layout)
    return run(layout, carried_out(steps_per_dispatch=5))


@given(
    start=st.integers(0, 200),
    more=st.integers(0, 200),
    most=st.integers(1, 40),
    every=st.lists(st.integers(0, 60), max_size=3),
    ends=st.lists(st.integers(1, 400), max_size=3),
)
def test_a_dispatch_ends_where_something_is_due(
    start: int, more: int, most: int, every: list[int], ends: list[int]
) -> None:
    counts = list(dispatches(start, start + more, most, every, ends))
    assert sum(counts) == more
    due = {step for step in range(start + 1, start + more + 1) for n in every if n and step % n == 0} | set(
        ends
    )
    step = start
    for count in counts:
        assert 1 <= count <= most
        assert not due & set(range(step + 1, step + count))
        step += count
        assert count == most or step in due or step == start + more  # not smaller than necessary


def test_steps_put_together_are_the_same_steps(one_by_one: TrainResult, by_five: TrainResult) -> None:
    alone, together = (
        [row for row in read_metrics(one.folder).to_pylist() if row["split"] == "train"]
        for one in (one_by_one, by_five)
    )
    assert [row["rows_digest"] for row in alone] == [row["rows_digest"] for row in together]
    for name in ("lm_loss_sum", "grad_norm", "count", "rows_loaded"):
        assert [row[name] for row in together] == pytest.approx([row[name] for row in alone], rel=1e-4), name


@pytest.mark.integration
def test_however_they_are_put_together_they_are_equal_to_the_bit(root: Layout, by_five: TrainResult) -> None:
    by_three = run(root, carried_out(steps_per_dispatch=3))
    assert final_state(by_three) == final_state(by_five)
    assert metrics_without_clock(by_three.folder) == metrics_without_clock(by_five.folder)


@pytest.mark.parametrize("steps", [pytest.param(1, marks=pytest.mark.slow), 5])
@pytest.mark.integration
def test_rows_that_devices_hold_are_those_that_are_sent(
    root: Layout, one_by_one: TrainResult, by_five: TrainResult, steps: int
) -> None:
    held = run(root, carried_out(steps_per_dispatch=steps, device_rows=True))
    sent = one_by_one if steps == 1 else by_five
    assert metrics_without_clock(held.folder) == metrics_without_clock(sent.folder)
    assert final_state(held) == final_state(sent)


@pytest.mark.integration
def test_a_killed_run_goes_on_to_the_bit(
    root: Layout, by_five: TrainResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(Exception):
        pass

    def killed(run: Any, first: int, count: int, metrics: Any, record: Any = loop.note_steps) -> None:
        if first + count > 7:
            run.checkpoints.wait()
            raise KilledError
        record(run, first, count, metrics)

    config = carried_out(steps_per_dispatch=5)
    with monkeypatch.context() as patched:
        patched.setattr(loop, "note_steps", killed)
        with pytest.raises(KilledError):
            run(root, config)
    result = run(root, config)
    assert result.started_at == 4
    assert final_state(result) == final_state(by_five)
    assert metrics_without_clock(result.folder) == metrics_without_clock(by_five.folder)


@pytest.mark.integration
def test_a_stage_of_training_ends_a_dispatch(root: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    model = dataclasses.replace(TINY.model, curriculum=Curriculum(0.5, ((1, 1), (2, 1))))
    config = carried_out(dataclasses.replace(TINY, model=model), steps_per_dispatch=100, checkpoint_every=12)
    config = carried_out(config, validate_every=0)
    seen: list[int] = []

    def noted(run: Any, first: int, count: int, metrics: Any, record: Any = loop.note_steps) -> None:
        seen.append(count)
        record(run, first, count, metrics)

    monkeypatch.setattr(loop, "note_steps", noted)
    assert run(root, config).finished
    assert seen == [3, 9]


@pytest.mark.parametrize(
    ("steps", "device_rows"), [pytest.param(1, False, marks=pytest.mark.slow), (3, True)]
)
@pytest.mark.integration
def test_nothing_is_compiled_after_the_first_of_its_kind(
    root: Layout, monkeypatch: pytest.MonkeyPatch, steps: int, device_rows: bool
) -> None:
    """Steps are compiled before the first one, a validation and a checkpoint at their first use."""
    compiled: list[str] = []
    steps_at: list[int] = []

    def listen(event: str, duration: float, **_: Any) -> None:
        if "backend_compile" in event:
            compiled.append(event)

    def noted(run: Any, first: int, count: int, metrics: Any, record: Any = loop.note_steps) -> None:
        record(run, first, count, metrics)
        steps_at.append(len(compiled))

    jax.monitoring.register_event_duration_secs_listener(listen)
    monkeypatch.setattr(loop, "note_steps", noted)
    config = dataclasses.replace(TINY, total_steps=36)
    config = carried_out(config, steps_per_dispatch=steps, device_rows=device_rows, checkpoint_every=6)
    try:
        assert run(root, config).finished
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert compiled  # the listener works
    after_the_first_of_each = 6 // steps
    assert steps_at[0] == steps_at[after_the_first_of_each - 1], steps_at
    assert len({*steps_at[after_the_first_of_each:], len(compiled)}) == 1, steps_at


def test_row_numbers_are_those_of_the_batches(small_layout: Layout) -> None:
    dataset = open_dataset("small", small_layout, "train")
    rows = np.array([3, 0, 5], np.int64)
    assert numbered(dataset).read(rows)["rows"].tolist() == [3, 0, 5]
    held = hold_rows(dataset, make_mesh())
    for name, values in dataset.read(np.arange(len(dataset))).items():
        assert np.array_equal(held[name], values)


def test_an_error_of_the_loader_is_raised_where_its_batch_is_asked_for() -> None:
    class BrokenLoader:
        def __next__(self) -> Any:
            raise OSError("the disk is gone")

    broken: Any = BrokenLoader()
    with (
        Prefetcher(broken, make_mesh(), iter([1, 1, 1]), 1, None) as feed,
        pytest.raises(OSError, match="disk is gone"),
    ):
        feed.next()


def test_the_time_of_a_dispatch_is_shared_by_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10.0]
    monkeypatch.setattr("trm_train.training.observe.time.perf_counter", lambda: now[0])
    pace = Pace(lambda step: 1e6, None)
    with pace.waiting():
        now[0] += 0.5
    now[0] += 3.5
    pace.arrived(4)
    columns = [pace.step(step) for step in range(1, 5)]
    assert {(one["step_s"], one["data_wait_s"]) for one in columns} == {(1.0, 0.125)}
    assert pace.dispatch_s == 4.0
    assert pace.window(8)["examples_per_s"] == pytest.approx(8.0)
    now[0] += 2.0
    assert pace.step(5)["step_s"] == 2.0  # with a single step, the metrics arrive when it is recorded
