"""A signal during the start of a run ends it at once: there is nothing to save yet."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.multiprocess.processes import RUN, free_address, start
from tests.support.roots import root_with
from trm_data.storage.root import Layout
from trm_train.checkpoint.manager import saved_steps
from trm_train.runs.record import list_runs

MANY_CYCLES = ["--model.hidden-size", "64", "--model.num-layers", "8", "--model.l-cycles", "12"]
"""Options of a step that takes half a minute to compile."""
COMPILES = "jaxpr to MLIR module conversion jit(train_steps)"
AT_ONCE_S = 15.0
"""Three seconds for the command to end by itself, and a margin for a busy machine."""


class SignalReceiver:
    """Standard error of a process, line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.lines = process, list[str]()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(iter(self.process.stderr.readline, ""))

    @property
    def text(self) -> str:
        return "".join(self.lines)

    def wait_for(self, words: str, limit_s: float = 120.0) -> None:
        deadline = time.monotonic() + limit_s
        while not any(words in line for line in list(self.lines)):
            assert self.process.poll() is None, self.text
            assert time.monotonic() < deadline, f"{words}: not said in {limit_s} s: {self.text}"
            time.sleep(0.05)

    def end(self, limit_s: float) -> int:
        try:
            code = self.process.wait(limit_s)
        finally:
            self.process.kill()
        self._thread.join(5.0)
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
        return code


@pytest.fixture
def begin(
    small_layout: Layout, tmp_path: Path
) -> Generator[Callable[[int], tuple[Layout, list[SignalReceiver]]], None, None]:
    """Start a run of several processes with an empty compilation cache; return when all of them compile."""
    started: list[subprocess.Popen[str]] = []

    def begun(count: int) -> tuple[Layout, list[SignalReceiver]]:
        layout = root_with("small", tmp_path / "root", small_layout)
        together = ["--coordinator", free_address(), "--num-processes", str(count)] if count > 1 else []
        heard: list[SignalReceiver] = []
        for index in range(count):
            own = ["--process-id", str(index)] if count > 1 else []
            cache = str(tmp_path / f"cache-{index}")
            environment = {"TRM_CACHE": cache, "JAX_COMPILATION_CACHE_DIR": cache}
            environment |= {"JAX_LOG_COMPILES": "1", "XLA_FLAGS": ""}
            options = [*RUN, *MANY_CYCLES, "--total-steps", "100", "--root", layout.place, *together, *own]
            heard.append(SignalReceiver(start(options, **environment)))
            started.append(heard[-1].process)
        for one in heard:
            one.wait_for(COMPILES)
        time.sleep(3.0)  # inside the compiler, which continues after Python receives a signal
        return layout, heard

    yield begun
    for process in started:
        process.kill()


def check_nothing_is_half_written(layout: Layout) -> None:
    """Check that the run's folder has its record and nothing else."""
    (run,) = list_runs(layout)
    assert saved_steps(run) == []
    assert run.within("metrics").names() == []
    assert not list(Path(run.place).rglob(".tmp*"))


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_while_it_compiles(
    begin: Callable[[int], tuple[Layout, list[SignalReceiver]]], sent: signal.Signals
) -> None:
    layout, (alone,) = begin(1)
    alone.process.send_signal(sent)
    assert alone.end(AT_ONCE_S) == -sent
    assert "Traceback" not in alone.text
    check_nothing_is_half_written(layout)
