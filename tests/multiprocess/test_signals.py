"""A signal during the start of a run ends it at once: there is nothing to save yet."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.multiprocess.processes import RUN, start
from tests.support.roots import root_with
from trm_data.storage.root import Layout
from trm_train.checkpoint.manager import saved_steps
from trm_train.runs.record import list_runs

MANY_CYCLES = ["--model.hidden-size", "64", "--model.num-layers", "8", "--model.l-cycles", "12"]
"""Options of a step that takes half a minute to compile."""
COMPILES = "jaxpr to MLIR module conversion jit(train_steps)"
AT_ONCE_S = 15.0
"""Three seconds for the command to end by itself, and a margin for a busy machine."""


def check_nothing_is_half_written(layout: Layout) -> None:
    """Check that the run's folder has its record and nothing else."""
    (run,) = list_runs(layout)
    assert saved_steps(run) == []
    assert run.within("metrics").names() == []
    assert not list(Path(run.place).rglob(".tmp*"))


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_while_it_compiles(small_layout: Layout, tmp_path: Path, sent: signal.Signals) -> None:
    layout, cache = root_with("small", tmp_path / "root", small_layout), str(tmp_path / "cache")
    environment = {"TRM_CACHE": cache, "JAX_COMPILATION_CACHE_DIR": cache}
    environment |= {"JAX_LOG_COMPILES": "1", "XLA_FLAGS": ""}
    options = [*RUN, *MANY_CYCLES, "--total-steps", "100", "--root", layout.place]
    with start(options, **environment) as process:
        assert process.stderr is not None
        try:
            assert any(COMPILES in line for line in process.stderr)
            time.sleep(3.0)  # inside the compiler, which continues after Python receives a signal
            process.send_signal(sent)
            _, said = process.communicate(timeout=AT_ONCE_S)
        finally:
            process.kill()
    assert process.returncode == -sent
    assert "Traceback" not in said
    check_nothing_is_half_written(layout)
