"""Trains a run on a TPU, and restarts it after preemptions.

    ensure -> install -> start -> watch --ended--> outcome
       ^                            |
       +---- preempted or lost ---+      the same command resumes from the last checkpoint

No state is stored here: the same launch command, started again, finds the running processes and watches them.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from trm_data.command import Exit
from trm_data.errors import DataError, DatasetNotFoundError
from trm_data.manifest import read_manifest
from trm_data.storage.root import Layout
from trm_train.config.overrides import take_option
from trm_train.errors import CapacityError, LaunchError
from trm_train.experiments.dataset import is_named
from trm_train.launch import scripts
from trm_train.launch.scripts import Answer
from trm_train.launch.tpu import INSTALL_S, Tpu

RESTARTED = (Exit.FOUND, Exit.BUCKET, Exit.STALLED, Exit.TERMINATED, 134, 135, 137, 139)
"""Resumable exit codes: those of docs/troubleshooting.md, of a stalled process (1), and of processes killed by jax or
the system."""
CAPACITY_S = 60.0
"""Interval between requests for a TPU when none is available (s)."""
FAREWELL_S = 600.0
"""Timeout for a stopping run to save a checkpoint (s)."""
SILENT_LOOKS = 4
"""Consecutive polls without an answer before hosts count as lost; fewer may be a short network failure."""

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Launched:
    """A run to launch, and how to watch it.

    Attributes:
        run: Name of the run.
        words: Arguments of `trm-train` on every host, without those that connect the hosts.
        restarts: Maximum number of restarts.
        look_s: Polling interval (s).
        say: Shows a message.
        show: Shows a piece of the log unchanged.
    """

    run: str
    words: tuple[str, ...]
    restarts: int = 20
    look_s: float = 15.0
    say: Say
    show: Say


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of a launched run.

    Attributes:
        run: Name of the run.
        state: `done`, `failed`, `stopped` (on request), or `lost` (preempted, or ended with a resumable code).
        code: Exit code.
        restarts: Number of restarts.
        reason: Reason for a failure.
    """

    run: str
    state: str
    code: int = 0
    restarts: int = 0
    reason: str = ""


def train(asked: Launched, tpu: Tpu) -> Outcome:
    """Train a run to its end, on a TPU that may be preempted."""
    restarts = 0
    while True:
        _ensure(asked, tpu, patient=restarts > 0)
        outcome = replace(_start_and_watch(asked, tpu), restarts=restarts)
        if outcome.state != "lost":
            return outcome
        if restarts == asked.restarts:
            return replace(outcome, state="failed", reason=f"{outcome.reason}; --restarts {asked.restarts}")
        restarts += 1
        # A restart never discards the run.
        asked = replace(asked, words=tuple(take_option("--resume", list(asked.words))[1]))
        asked.say(
            f"{asked.run}: {outcome.reason}; it resumes from its last checkpoint (start {restarts + 1} of "
            f"{asked.restarts + 1} at most)"
        )
        time.sleep(asked.look_s)


def stop(asked: Launched, tpu: Tpu) -> Outcome | None:
    """Ask a running process to save a checkpoint and exit, and wait for it; return None if nothing runs."""
    if tpu.state() != "READY" or not _running(_look(asked.run, tpu)):
        return None
    tpu.everywhere("asked", scripts.stop(asked.run))
    asked.say(f"{asked.run}: asked to save a checkpoint and end")
    deadline = time.monotonic() + FAREWELL_S
    while _running(_look(asked.run, tpu)):
        if time.monotonic() > deadline:
            raise LaunchError(
                f"{asked.run}: still runs on {tpu.place} {FAREWELL_S:.0f} s after the request to end"
            )
        time.sleep(asked.look_s)
    return Outcome(run=asked.run, state="stopped")


def _ensure(asked: Launched, tpu: Tpu, *, patient: bool) -> None:
    while True:
        try:
            tpu.ensure()
            return
        except CapacityError as error:
            if not patient:
                raise
            asked.say(f"{error}; retrying every {CAPACITY_S:.0f} s")
            time.sleep(CAPACITY_S)


def _start_and_watch(asked: Launched, tpu: Tpu) -> Outcome:
    try:
        tpu.everywhere("installed", scripts.install(tpu.source, tpu.extras), INSTALL_S)
        hosts = _look(asked.run, tpu)
        if _running(hosts) and all(host.word != "absent" for host in hosts):
            asked.say(f"{asked.run}: is running; watching it")
        else:
            words = [*asked.words, *(["--distributed"] if tpu.count > 1 else [])]
            tpu.everywhere("started", scripts.start(asked.run, tpu.source, words))
            asked.say(f"{asked.run}: started on {tpu.place}")
    except LaunchError:
        if (state := tpu.state()) == "READY":
            raise
        return _lost(asked.run, f"{tpu.place} is {state or 'not there any more'}")
    place, silent = "", 0
    while True:
        if (state := tpu.state()) != "READY":
            return _lost(asked.run, f"{tpu.place} is {state or 'not there any more'}")
        hosts = _look(asked.run, tpu)
        text = "the beginning"
        while text:
            text, place = tpu.log(asked.run, place)
            asked.show(text)
        silent = 0 if len(hosts) == tpu.count else silent + 1
        if silent == SILENT_LOOKS:
            return _lost(asked.run, f"{len(hosts)} of {tpu.count} hosts answer")
        if not silent and not _running(hosts):
            return _ended(asked.run, hosts)
        time.sleep(asked.look_s)


def _look(run: str, tpu: Tpu) -> list[Answer]:
    """Return the state of a run on each host; raise LaunchError if another run uses the hosts."""
    found = tpu.ask(scripts.look(run))
    if others := [f"the run {one.value} on {one.host}" for one in found if one.word == "other"]:
        raise LaunchError(
            f"{tpu.place} is in use: {', '.join(others)}. Wait for it, end it (trm-train launch ... --stop), or choose "
            "another --name"
        )
    return found


def _running(hosts: Sequence[Answer]) -> bool:
    return any(host.word == "running" for host in hosts)


def _lost(run: str, reason: str) -> Outcome:
    return Outcome(run=run, state="lost", code=Exit.STALLED, reason=reason)


def _ended(run: str, hosts: Sequence[Answer]) -> Outcome:
    """Return the outcome of a run that no longer runs."""
    if absent := [host.host for host in hosts if host.word == "absent"]:
        return _lost(run, f"ended on {', '.join(absent)} without a code, as when a machine starts over")
    codes = {host.host: int(host.value) if host.value.isdecimal() else Exit.FOUND for host in hosts}
    if not any(codes.values()):
        return Outcome(run=run, state="done")
    own = [code for code in codes.values() if code and code not in RESTARTED]
    code = (own or [code for code in codes.values() if code])[0]
    reason = f"exit code {code} on {', '.join(host for host in codes if codes[host] == code)}"
    state = "stopped" if any(host.word == "stopped" for host in hosts) else "failed" if own else "lost"
    return Outcome(run=run, state=state, code=code, reason=reason)


PROBE = ".launch"
"""File written under the root and deleted again, to test write access."""


def check_root(layout: Layout, datasets: Sequence[str]) -> None:
    """Raise LaunchError if the root cannot be written, or lacks a dataset of the run."""
    try:
        layout.runs.write(PROBE, b"written")
        layout.runs.delete(PROBE)
    except (DataError, OSError) as error:
        raise LaunchError(f"{layout.place} cannot be written: {error}") from error
    for name in dict.fromkeys(datasets):
        try:
            read_manifest(layout, name)
        except DatasetNotFoundError as error:
            root = shlex.quote(layout.place)
            build = f"trm-data build {name} --root {root}"
            copy = f"gcloud storage rsync -r FROM/datasets/{name} {root}/datasets/{name}"
            raise LaunchError(
                f"dataset {name} is not under {layout.place}; put it there: {build if is_named(name) else copy}"
            ) from error
