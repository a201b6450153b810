"""A root for the dashboard: a finished run, a run in training, and a run with HTML in its name."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.trm_eval.conftest import Evaluated
from tests.trm_train.test_loop import TINY
from trm_data.storage.root import Layout, resolve_root
from trm_data.storage.store import Folder
from trm_eval.evaluation.flow import evaluate_run
from trm_eval.identity import EvalRequest
from trm_train.config.run import RunConfig, identity_hash
from trm_train.runs.record import CONFIG_FILE, list_runs, read_record, run_name, write_record
from trm_train.runs.status import STATUS_FILE, read_status, status_bytes

HOSTILE = "<img src=x onerror=alert(1)> **$x$**"


@pytest.fixture(scope="session")
def root(evaluated: Evaluated, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """The root. Tests may change only the status of the run in training."""
    layout = resolve_root(tmp_path_factory.mktemp("served") / "root")
    shutil.copytree(evaluated.layout.machine, layout.machine, ignore=shutil.ignore_patterns("*.lock"))
    done = list_runs(layout)[0]
    evaluate_run(layout, done, EvalRequest())
    add_live_run(layout)
    return layout


def live_run() -> RunConfig:
    """Return the configuration of the run in training: that of the finished run, with another seed."""
    return dataclasses.replace(TINY, seed=7)


def add_live_run(layout: Layout) -> None:
    """Copy the finished run to one with another seed that is in training."""
    (done,) = list_runs(layout)
    name = run_name("tiny", live_run())
    copied = Folder(layout.store, done.path.replace(done.name, name))
    here = layout.machine / copied.path
    shutil.copytree(layout.machine / done.path, here, ignore=shutil.ignore_patterns("checkpoints", "weights"))
    (here / CONFIG_FILE).unlink()
    record = read_record(done)
    write_record(
        copied, dataclasses.replace(record, config=live_run(), identity=identity_hash(live_run()), run=name)
    )
    set_live(layout, step=6)


def set_live(layout: Layout, *, step: int, heartbeat: datetime | None = None) -> None:
    """Set the step of the run in training."""
    name = run_name("tiny", live_run())
    folder = next(each for each in list_runs(layout) if each.name == name)
    status = read_status(folder)
    assert status is not None
    beat = (heartbeat or datetime.now(UTC)).isoformat()
    folder.write(
        STATUS_FILE, status_bytes(dataclasses.replace(status, state="running", step=step, heartbeat=beat))
    )


@pytest.fixture(scope="session")
def hostile(evaluated: Evaluated, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A root with only the results of a run whose name is HTML, Markdown and a formula."""
    layout = resolve_root(tmp_path_factory.mktemp("hostile") / "root")
    shutil.copytree(evaluated.layout.machine, layout.machine, ignore=shutil.ignore_patterns("*.lock"))
    shutil.rmtree(layout.machine / "runs")
    for folder in (layout.machine / "results").rglob("run=*"):
        folder.rename(folder.with_name(f"run={HOSTILE}"))
    return layout


@contextmanager
def served(root: Layout, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a server for a root; yield its process and URL; end it by Ctrl-C."""
    process = subprocess.Popen(
        [PROJECT / ".venv" / "bin" / "trm-eval", "serve", "--root", str(root.machine), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.match(r"(http://\S+)  ", line)
        assert found, line + process.communicate(timeout=600)[1]
        yield process, found[1]
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait(60)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture(scope="session")
def address(root: Layout) -> Iterator[str]:
    """URL of a server for the root."""
    with served(root, "--port", "0") as (_, url):
        yield url


def app_script() -> Path:
    """Return the script that Streamlit runs."""
    return PROJECT / "trm_eval" / "serve" / "app.py"
