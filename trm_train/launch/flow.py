"""Trains runs on a target, one after the other, and restarts them after preemptions.

    ensure -> install -> start -> watch --ended--> next run
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
from trm_train.errors import CapacityError, LaunchError
from trm_train.experiments.dataset import is_named
from trm_train.launch.shell import Say
from trm_train.launch.target import Target, TargetState, Work

RESTARTED = (Exit.FOUND, Exit.BUCKET, Exit.STALLED, Exit.TERMINATED, 134, 135, 137, 139)
"""Resumable exit codes: those of docs/troubleshooting.md, of a stalled process (1), and of processes killed by jax or
the system."""
CAPACITY_S = 60.0
"""Interval between requests for machines when none are available (s)."""
FAREWELL_S = 600.0
"""Timeout for a stopping run to save a checkpoint (s)."""

Show = Callable[[str], None]
"""Callback that displays a piece of a run's log unchanged."""


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """Options for watching runs.

    Attributes:
        restarts: Maximum number of restarts of a run.
        look_s: Polling interval (s).
        detach: Exit as soon as the run is started.
        go_on: Continue with the next run after a failure.
        delete: Delete the machines at the end.
        dry: Dry run: execute nothing, poll once.
    """

    restarts: int = 20
    look_s: float = 15.0
    detach: bool = False
    go_on: bool = False
    delete: bool = False
    dry: bool = False


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of a launched run.

    Attributes:
        run: Name of the run.
        state: `done`, `failed`, `stopped` (on request), or `started` (detached).
        code: Exit code.
        restarts: Number of restarts.
        reason: Reason for a failure.
    """

    run: str
    state: str
    code: int = 0
    restarts: int = 0
    reason: str = ""


def run_all(works: Sequence[Work], target: Target, how: LaunchOptions, say: Say, show: Show) -> list[Outcome]:
    """Train runs one after another."""
    outcomes: list[Outcome] = []
    try:
        for work in works:
            outcomes.append(run_to_end(work, target, how, say, show))
            say(f"{work.name}: {_said(outcomes[-1])}")
            if outcomes[-1].code and not (how.go_on and outcomes[-1].state == "failed"):
                break
    except LaunchError:
        _leave(target, replace(how, delete=False), say)  # the machines may belong to another user
        raise
    if not how.detach:
        _leave(target, how, say)
    return outcomes


def run_to_end(work: Work, target: Target, how: LaunchOptions, say: Say, show: Show) -> Outcome:
    """Train a run to its end, on machines that may be preempted."""
    restarts, tail = 0, Tail(show)
    while True:
        _ensure(target, how, say, patient=restarts > 0)
        lost = _begin(work, target, say)
        if how.detach and lost is None:
            return Outcome(run=work.name, state="started", restarts=restarts)
        outcome = replace(lost or _watch(work, target, how, say, tail), restarts=restarts)
        if outcome.state != "lost":
            return outcome
        if restarts == how.restarts:
            return replace(outcome, state="failed", reason=f"{outcome.reason}; --restarts {how.restarts}")
        restarts += 1
        work = work.resuming()
        say(
            f"{work.name}: {outcome.reason}; it resumes from its last checkpoint (start {restarts + 1} of "
            f"{how.restarts + 1} at most)"
        )
        time.sleep(how.look_s)


def stop(works: Sequence[Work], target: Target, how: LaunchOptions, say: Say) -> list[Outcome]:
    """Ask running processes to save a checkpoint and exit, and wait until they have exited."""
    outcomes: list[Outcome] = []
    for work in works:
        seen = target.look(work)
        if seen.others and how.delete:
            raise _in_use(target, seen)
        if not seen.running:
            continue
        target.stop(work)
        say(f"{work.name}: asked to save a checkpoint and end")
        began = time.monotonic()
        while seen.running and not how.dry:
            if time.monotonic() - began > FAREWELL_S:
                raise LaunchError(
                    f"{work.name}: still runs on {target.place} {FAREWELL_S:.0f} s after the request to end"
                )
            time.sleep(how.look_s)
            seen = target.look(work)
        outcomes.append(Outcome(run=work.name, state="stopped"))
    if not outcomes:
        say(f"nothing runs on {target.place}")
    _leave(target, how, say)
    return outcomes


def _ensure(target: Target, how: LaunchOptions, say: Say, *, patient: bool) -> None:
    while True:
        try:
            target.ensure()
            return
        except CapacityError as error:
            if not patient:
                raise
            say(f"{error}; retrying every {CAPACITY_S:.0f} s")
            time.sleep(CAPACITY_S)


def _begin(work: Work, target: Target, say: Say) -> Outcome | None:
    """Install and start a run; return an outcome only if the machines were lost meanwhile."""
    try:
        target.install()
        _start(work, target, say)
        return None
    except LaunchError:
        seen = target.look(work)
        if not seen.gone:
            raise
        return _ended(work, seen)


def _in_use(target: Target, seen: TargetState) -> LaunchError:
    return LaunchError(
        f"{target.place} is in use: {', '.join(seen.others)}; wait for it, end it (trm-train launch ... --stop), or "
        "take other machines (--name, --hosts)"
    )


def _start(work: Work, target: Target, say: Say) -> None:
    seen = target.look(work)
    if seen.others:
        raise _in_use(target, seen)
    part = any(host.state == "absent" for host in seen.hosts)
    ends = any(host.state in ("ended", "stopped") for host in seen.hosts)
    if seen.running and (ends or not part):
        say(f"{work.name}: is running; watching it")
    else:
        target.start(work)
        say(f"{work.name}: started on {target.place}")


@dataclass
class Tail:
    """Shows the new part of a log at each call.

    Attributes:
        show: Displays text.
        place: Position in the log up to which it was shown.
    """

    show: Show
    place: str = ""

    def follow(self, work: Work, target: Target) -> None:
        """Show the log from the last position to its end."""
        text = "the beginning"
        while text:
            text, self.place = target.log(work, self.place)
            if text:
                self.show(text)


def _watch(work: Work, target: Target, how: LaunchOptions, say: Say, tail: Tail) -> Outcome:
    while True:
        seen = target.look(work)
        tail.follow(work, target)
        if how.dry:
            return Outcome(run=work.name, state="done")
        if not seen.running:
            return _ended(work, seen)
        time.sleep(how.look_s)


def _ended(work: Work, seen: TargetState) -> Outcome:
    """Return the outcome of a run that no longer runs."""
    if seen.gone or not seen.ended:
        lost = [host.name for host in seen.hosts if host.state == "absent"]
        reason = seen.gone or f"ended on {', '.join(lost)} without a code, as when a machine starts over"
        return Outcome(run=work.name, state="lost", code=Exit.STALLED, reason=reason)
    if all(host.code == 0 for host in seen.hosts):
        return Outcome(run=work.name, state="done")
    failed = [host for host in seen.hosts if host.code]
    own = [host for host in failed if host.code not in RESTARTED]
    code = (own or failed)[0].code
    reason = f"exit code {code} on {', '.join(host.name for host in failed if host.code == code)}"
    if any(host.state == "stopped" for host in seen.hosts):
        return Outcome(run=work.name, state="stopped", code=code, reason=reason)
    return Outcome(run=work.name, state="failed" if own else "lost", code=code, reason=reason)


def _leave(target: Target, how: LaunchOptions, say: Say) -> None:
    if how.delete:
        target.release()
    elif not how.dry and (left := target.leftover()):
        say(left)


def _said(outcome: Outcome) -> str:
    again = f", started again {outcome.restarts}x" if outcome.restarts else ""
    return f"{outcome.state}{f' ({outcome.reason})' if outcome.reason else ''}{again}"


PROBE = ".launch"
"""File written under the root and deleted again, to test write access."""


def root_problems(layout: Layout, datasets: Sequence[str]) -> list[str]:
    """Return the problems of a root, one line each with the remedy.

    Args:
        layout: The root.
        datasets: Names of the datasets that the runs need.
    """
    try:
        layout.runs.write(PROBE, b"written")
        layout.runs.delete(PROBE)
    except (DataError, OSError) as error:
        return [f"{layout.place} cannot be written: {error}"]
    problems: list[str] = []
    for name in dict.fromkeys(datasets):
        try:
            read_manifest(layout, name)
        except DatasetNotFoundError:
            root = shlex.quote(layout.place)
            build = f"trm-data build {name} --root {root}"
            copy = f"gcloud storage rsync -r FROM/datasets/{name} {root}/datasets/{name}"
            problems.append(
                f"dataset {name} is not under {layout.place}; put it there: {build if is_named(name) else copy}"
            )
        except DataError as error:
            problems.append(f"dataset {name}: {error}")
    return problems


def check_all(checks: Sequence[Callable[[], list[str]]]) -> None:
    """Run all checks, and raise one LaunchError that lists every problem."""
    problems: list[str] = []
    for check in checks:
        try:
            problems += check()
        except LaunchError as error:
            problems.append(str(error))
    if problems:
        raise LaunchError("\n  ".join(["before anything was created:", *problems]))
