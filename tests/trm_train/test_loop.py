"""Training on real rows: a killed run ends like an undisturbed one, bit for bit; mismatches are refused."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import pytest

from tests.support.roots import root_with
from trm_data.building.flow import build_dataset
from trm_data.errors import Exit
from trm_data.storage.root import Layout, resolve_root
from trm_data.storage.store import Folder
from trm_train.checkpoint.manager import Checkpoints, weights_steps
from trm_train.checkpoint.tree import state_tree
from trm_train.config.data import DataConfig
from trm_train.config.run import ExecutionConfig, ModelConfig, OptimConfig, RunConfig
from trm_train.console import RunConsole
from trm_train.errors import CheckpointError
from trm_train.experiments.registry import Experiment
from trm_train.mesh import fingerprints, make_mesh
from trm_train.metrics import CLOCKED, read_metrics
from trm_train.runs.record import list_runs, read_record
from trm_train.runs.status import read_status
from trm_train.state import init_state
from trm_train.training.loop import train
from trm_train.training.start import TrainResult

TINY = RunConfig(
    data=DataConfig(dataset="small", global_batch_size=8),
    model=ModelConfig(
        hidden_size=16,
        num_heads=2,
        h_cycles=2,
        l_cycles=1,
        num_layers=1,
        puzzle_emb_len=1,
        halt_max_steps=3,
        forward_dtype="float32",
    ),
    optim=OptimConfig(lr=1e-3, lr_warmup_steps=2, weight_decay=0.1, ema_rate=0.9),
    total_steps=12,
    execution=ExecutionConfig(validate_every=6, checkpoint_every=4, log_every=5),
)
EXPERIMENT = Experiment("tiny", "testing", lambda: TINY)


@pytest.fixture(scope="module")
def layout(small_layout: Layout, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return root_with("small", tmp_path_factory.mktemp("training"), small_layout)


def run(layout: Layout, config: RunConfig = TINY, **options) -> TrainResult:
    with RunConsole(config, quiet=True) as console:
        return train(EXPERIMENT, config, layout, console, tracking="none", **options)


def final_state(result: TrainResult) -> dict[str, int]:
    """Return fingerprints of every leaf of the newest resume checkpoint, recomputed from its arrays."""
    record = result.record
    _, state = init_state(record.config, record.input_spec, record.config.data.global_batch_size, make_mesh())
    checkpoints = Checkpoints(result.folder)
    restored = checkpoints.restore(state)
    checkpoints.close()
    assert (restored.meta.step, restored.problems) == (result.step, [])
    return fingerprints(state_tree(restored.state))


@pytest.fixture(scope="module")
def undisturbed(layout: Layout) -> TrainResult:
    return run(layout)


def metrics_without_clock(folder: Folder) -> list[dict]:
    return read_metrics(folder).drop_columns(list(CLOCKED)).to_pylist()


def test_a_run_leaves_what_it_should(undisturbed: TrainResult) -> None:
    assert undisturbed.finished
    assert undisturbed.step == 12
    assert weights_steps(undisturbed.folder) == [4, 8, 12]
    record = read_record(undisturbed.folder)
    assert record == undisturbed.record
    rows = read_metrics(undisturbed.folder).to_pylist()
    assert [row["step"] for row in rows if row["split"] == "train"] == list(range(1, 13))
    assert [row["step"] for row in rows if row["split"] == "validation"] == [6, 12]
    assert all(row["count"] == 8 for row in rows if row["split"] == "validation")
    train_rows = [row for row in rows if row["split"] == "train"]
    assert train_rows[0]["rows_loaded"] == 8
    assert train_rows[-1]["rows_loaded"] == 8 + sum(row["count"] for row in train_rows[:-1])


def test_a_finished_run_does_nothing(layout: Layout, undisturbed: TrainResult) -> None:
    again = run(layout)
    assert (again.started_at, again.step) == (12, 12)


@pytest.mark.parametrize(
    "cut",
    [
        5,
        pytest.param(8, marks=pytest.mark.integration),
        pytest.param(4, marks=pytest.mark.slow),
        pytest.param(11, marks=pytest.mark.slow),
    ],
)
def test_resuming_gives_the_same_bits_and_metrics(
    layout: Layout, undisturbed: TrainResult, tmp_path: Path, cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies at step `cut` (nothing after its last checkpoint survives); the same command resumes."""
    from trm_train.training import loop

    elsewhere = root_with("small", tmp_path, layout)

    class KilledError(Exception):
        pass

    def killed(run, first, count, metrics, record=loop.note_steps):
        if first >= cut:
            run.checkpoints.wait()
            raise KilledError
        record(run, first, count, metrics)

    with monkeypatch.context() as patched:
        patched.setattr(loop, "note_steps", killed)
        with pytest.raises(KilledError):
            run(elsewhere)
    result = run(elsewhere)
    assert result.started_at == (cut - 1) // 4 * 4
    assert final_state(result) == final_state(undisturbed)
    assert metrics_without_clock(result.folder) == metrics_without_clock(undisturbed.folder)


TRAIN = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from test_loop import EXPERIMENT, TINY, run
from trm_data.storage.root import Layout, resolve_root
from trm_data.storage.store import Folder
print("ready", flush=True)
result = run(resolve_root(Path(sys.argv[1])))
print(result.step, result.finished, flush=True)
"""


def start(root: Path) -> subprocess.Popen:
    program = TRAIN.format(tests=str(Path(__file__).parent))
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    return subprocess.Popen(
        [sys.executable, "-c", program, str(root)], stdout=subprocess.PIPE, text=True, env=environment
    )


@pytest.mark.slow  # tests/harness/test_kills.py does it many times, and once in every suite
def test_a_process_that_is_killed_goes_on(layout: Layout, undisturbed: TrainResult, tmp_path: Path) -> None:
    """SIGKILL as soon as the first checkpoint exists, then the same command."""
    elsewhere = root_with("small", tmp_path, layout)
    with start(tmp_path) as process:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not (
            any(weights_steps(folder) for folder in list_runs(elsewhere))
        ):
            time.sleep(0.01)
        process.kill()
    result = run(elsewhere)
    assert result.finished
    assert final_state(result) == final_state(undisturbed)


def test_a_stop_signal_ends_with_a_checkpoint(layout: Layout, tmp_path: Path) -> None:
    elsewhere = root_with("small", tmp_path, layout)
    config = dataclasses.replace(TINY, total_steps=100_000)

    class Interrupting(RunConsole):
        def step(self, step: int) -> None:
            if step == 7:
                os.kill(os.getpid(), signal.SIGTERM)

    with Interrupting(config, quiet=True) as console:
        result = train(EXPERIMENT, config, elsewhere, console, tracking="none")
    assert not result.finished
    assert 7 <= result.step <= 9
    assert weights_steps(result.folder)[-1] == result.step
    assert result.exit_code == Exit.TERMINATED
    status = read_status(result.folder)
    assert status is not None
    assert (status.state, status.step, status.total_steps) == ("stopped", result.step, 100_000)


@pytest.mark.integration
def test_starting_anew_forgets_the_run(layout: Layout, undisturbed: TrainResult) -> None:
    again = run(layout, resume=False)
    assert again.started_at == 0
    assert final_state(again) == final_state(undisturbed)


@pytest.mark.integration
def test_a_second_start_compiles_nothing_also_with_a_moved_cache(
    layout: Layout, undisturbed: TrainResult, tmp_path: Path
) -> None:
    program = TRAIN.format(tests=str(Path(__file__).parent))
    program = program.replace(
        'print("ready"',
        "import jax\nevents = []\n"
        'jax.monitoring.register_event_listener(lambda event, **_: events.append(event))\nprint("ready"',
    )
    program += "\nimport json\nprint(json.dumps({e: events.count(e) for e in set(events)}))\n"
    shutil.rmtree(undisturbed.folder.uri("checkpoints"))  # its first start was in this process
    shutil.copytree(jax.config.jax_compilation_cache_dir, tmp_path / "moved")
    done = subprocess.run(
        [sys.executable, "-c", program, str(layout.machine)],
        env={**os.environ, "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "moved")},
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    events = json.loads(done.stdout.splitlines()[-1])
    assert events["/jax/compilation_cache/cache_hits"] > 0
    assert events.get("/jax/compilation_cache/cache_misses", 0) == 0


@pytest.mark.integration
def test_a_rebuilt_dataset_with_other_rows_is_refused(layout: Layout, tmp_path: Path, request_small) -> None:
    elsewhere = resolve_root(tmp_path)
    build_dataset(request_small(), elsewhere)
    run(elsewhere)
    shutil.rmtree(elsewhere.dataset("small").here)
    build_dataset(request_small(seed=99), elsewhere)
    with pytest.raises(CheckpointError, match="began with other rows"):
        run(elsewhere)
    assert run(elsewhere, resume=False).finished


@pytest.mark.integration
def test_a_batch_that_does_not_fit_the_devices(layout: Layout) -> None:
    program = TRAIN.format(tests=str(Path(__file__).parent)).replace("run(Layout", "run(layout=Layout")
    environment = {
        **os.environ,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=3",
        "JAX_PLATFORMS": "cpu",
    }
    failed = subprocess.run(
        [sys.executable, "-c", program, str(layout.machine)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=600,
    )
    assert "a multiple of the 3 devices along the mesh axis data, got 8" in failed.stderr
