"""Test setup: strict JAX, array types checked at run time, no network except the loopback.

JAX is configured by environment variables, so that tests without JAX do not import it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

from trm_data.building.flow import build_dataset
from trm_data.engine.local import LocalEngine
from trm_data.extensions import OWN_FILE
from trm_data.kinds.sudoku.options import SudokuOptions
from trm_data.sources.base import parse_source
from trm_data.specs import BuildRequest
from trm_data.storage.root import Layout, resolve_root

# Bytecode of modules and rewritten tests is kept, also where the environment says otherwise: without it each worker
# takes eight more seconds of a core, and each command that a test starts compiles this project again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A busy machine must not make a test fail.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

PROJECT = Path(__file__).resolve().parents[1]
# Compiled programs are cached for later runs, other workers, and commands that tests start. A size limit makes jax hold
# a lock while it writes.
os.environ["TRM_CACHE"] = str(PROJECT / ".cache" / os.environ.get("PYTEST_XDIST_WORKER", "main"))
os.environ["NUMBA_CACHE_DIR"] = str(PROJECT / ".cache" / "kernels")
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(PROJECT / ".cache" / "xla")
os.environ["JAX_COMPILATION_CACHE_MAX_SIZE"] = str(2 * 10**9)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

# gcsfs reads this at its first import, in any test; otherwise it asks by gRPC for the type of a bucket.
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
os.environ["JAX_PLATFORMS"] = "cpu"
# Compilation takes most of the time of training tests. Unoptimized machine code gives the same results except for
# rounding, and so does XLA's older code generator for fusions, which takes a third of the time. Where bits or golden
# numbers matter, tests start a process with `as_users_run_it`.
OPTIMIZATION = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {OPTIMIZATION}".strip()
os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"
os.environ["JAX_NUMPY_DTYPE_PROMOTION"] = "strict"
os.environ["WANDB_MODE"] = "offline"

# A shell's background job ignores Ctrl-C, and so would its children, including those that tests interrupt.
if (
    threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) == signal.SIG_IGN
):
    signal.signal(signal.SIGINT, signal.default_int_handler)

ARRAY_MODULES = ["model", "optim", "objective", "metrics", "step", "mesh", "checkpoint"]
install_import_hook([f"trm_train.{module}" for module in ARRAY_MODULES], "beartype.beartype")

LOOPBACK = ("127.", "::1", "localhost")


INTEGRATION = (
    "compatibility/",
    "determinism/",
    "documents/test_benchmarks",
    "documents/test_blocks",
    "documents/test_commands",
    "documents/test_demo",
    "documents/test_notebook",
    "documents/test_site",
    "e2e/",
    "gcs/",
    "harness/",
    "multiprocess/",
    "trm_data/engine/",
    "trm_data/test_signals",
    "trm_eval/report/test_browser",
    "trm_eval/serve/",
    "trm_eval/test_killed_evaluation",
    "trm_eval/test_mixture",
    "trm_train/test_batch",
    "trm_train/test_hosts",
    "trm_train/launch/",
    "trm_train/test_mesh",
    "trm_train/test_mixture",
    "trm_train/training/test_dry_run",
    "trm_train/training/test_several_steps",
    "trm_train/runs/test_status",
    "trm_train/training/test_stop",
    "trm_train/test_extend",
    "documents/test_pages",
    "trust/",
)
"""Files of the second tier: processes, buckets, hosts, batches, launching, pages, documents and kills.

All other files are in the first tier. A single slow test of such a file has the marker `integration`. A test of minutes
has the marker `slow` and is in the third tier, in any file.
"""

RACES = (
    "determinism/",
    "gcs/test_answers",
    "gcs/test_batch",
    "gcs/test_faults",
    "gcs/test_file_cache",
    "gcs/test_killed_build",
    "gcs/test_lost_turn",
    "gcs/test_requests",
    "gcs/test_runs",
    "gcs/test_store",
    "harness/test_failing_bucket",
    "harness/test_kills",
    "multiprocess/",
    "trm_data/engine/",
    "trm_data/test_signals",
    "trm_eval/serve/test_server",
    "trm_train/test_batch",
    "trm_train/test_hosts",
    "trm_train/launch/",
    "trm_train/runs/test_status",
    "trm_train/training/test_stop",
    "trust/test_scarce",
)
"""Files with tests that wait, kill or race; `pytest -m race` runs them. Single tests have the marker themselves."""

FIRST = (
    "gcs/test_runs",
    "trm_train/test_step",
    "trm_train/model/",
    "parity/",
    "e2e/",
    "trm_train/",
    "determinism/",
)
"""The slowest files start first, so that no worker ends with one of them while the others are idle."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files of the second tier without importing them, where its marker is deselected."""
    name = collection_path.relative_to(PROJECT / "tests").as_posix()
    inside = collection_path.is_file() and name.startswith(INTEGRATION)
    return True if inside and "not integration" in config.option.markexpr else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test with its tier, and order the files."""

    def name(item: pytest.Item) -> str:
        return item.nodeid.removeprefix("tests/")

    def place(item: pytest.Item) -> int:
        return next((i for i, first in enumerate(FIRST) if name(item).startswith(first)), len(FIRST))

    for item in items:
        if name(item).startswith(INTEGRATION):
            item.add_marker("integration")
        if name(item).startswith(RACES):
            item.add_marker("race")
    items.sort(key=place)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile each kernel once, on all cores, before the workers start."""
    if getattr(session.config.option, "numprocesses", None) and not session.config.option.collectonly:
        warm_kernels()


def warm_kernels() -> None:
    """Compile the kernels of all kinds, each kind in its own process."""
    from trm_data.kinds.registry import built_in, is_compiled

    code = [
        f"import {parts.warm} as m; m.warm()" for kind, parts in built_in().items() if not is_compiled(kind)
    ]
    if not is_compiled("sudoku"):
        code.append("from trm_data.kinds.sudoku.generate import generate_hard; generate_hard(0, 0, 0, 1)")
    running = [
        subprocess.Popen([sys.executable, "-c", program], cwd=PROJECT, stdout=subprocess.DEVNULL)
        for program in code
    ]
    for process in running:
        process.wait()


class Captured(io.StringIO):
    """Output of a command in this process, which can have any letter, as a terminal's."""

    encoding = "utf-8"  # type: ignore[assignment]


def run_here(main: Callable[[list[str]], None], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, which has already imported everything; return it like a finished process."""
    out, err = Captured(), Captured()
    before = signal.getsignal(signal.SIGTERM)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(list(arguments))
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1 if ended.code else 0
    finally:
        signal.signal(signal.SIGTERM, before)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def error_of(main: Callable[[list[str]], None], *arguments: str) -> tuple[int, str]:
    """Run a command that must fail in this process; return its exit code and error line."""
    done = run_here(main, *arguments)
    lines = done.stderr.strip().splitlines()
    assert done.returncode != 0, done.stdout
    assert lines, "no error line"
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, lines[-1]


def as_users_run_it() -> dict[str, str]:
    """Return the environment of a process whose results equal those of users, bit for bit."""
    return {**os.environ, "XLA_FLAGS": os.environ["XLA_FLAGS"].replace(OPTIMIZATION, "").strip()}


@pytest.fixture(autouse=True)
def own_file_is_forgotten() -> Generator[None, None, None]:
    """Restore the variable that a command with `--experiments FILE.py` sets in this process."""
    before = os.environ.get(OWN_FILE)
    yield
    os.environ.pop(OWN_FILE, None)
    if before is not None:
        os.environ[OWN_FILE] = before


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail tests that use the network."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def refuse_remote(address: Any) -> None:
        if isinstance(address, tuple) and not str(address[0]).startswith(LOOPBACK):
            raise RuntimeError(f"a test tried to connect to {address[0]}:{address[1]}")

    def guarded_connect(self: socket.socket, address: Any) -> None:
        refuse_remote(address)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        refuse_remote(address)
        return connect_ex(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded_connect)
    monkeypatch.setattr(socket.socket, "connect_ex", guarded_connect_ex)


@pytest.fixture
def nqueens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None, None, None]:
    """The example kind of another package, as if it were installed: its module, and metadata that refer to it."""
    site = tmp_path / "site"
    info = site / "trm_nqueens-0.1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copy(PROJECT / "examples" / "nqueens" / "nqueens.py", site)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: trm-nqueens\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[trm_data.kinds]\nnqueens = nqueens:NQueens\n")
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", path)
    yield
    sys.modules.pop("nqueens", None)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real puzzles next to the checkout; tests that need it are skipped without it."""
    folder = PROJECT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"needs the real puzzles in ../shared/data, and {folder} is not there")
    return folder


@pytest.fixture(scope="session")
def small_layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A root with one small built dataset, `small` (`small_request`). Tests must not change it."""
    layout = resolve_root(tmp_path_factory.mktemp("root"))
    build_dataset(small_request(), layout, shard_examples=200, engine=LocalEngine(2))
    return layout


def small_request(**changes: Any) -> BuildRequest:
    """Request 6x6 puzzles: 24 training groups of 1 + 9, 8 validation, 12 test."""
    request = BuildRequest(
        kind="sudoku",
        source=parse_source("generated"),
        size=24,
        aug=9,
        val_size=8,
        test_size=12,
        seed=3,
        options=SudokuOptions(box_rows=2, box_columns=3),
        name="small",
    )
    return dataclasses.replace(request, **changes)


@pytest.fixture
def request_small() -> Any:
    """`small_request`, for tests that build variants of it."""
    return small_request
