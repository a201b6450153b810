"""Trains a run on a TPU VM of one or several hosts, and restarts it after preemptions.

    ensure -> install -> start -> watch --ended--> outcome
       ^                            |
       +---- preempted or lost ---+      the same command resumes from the last checkpoint

No state is stored here: the same launch command, started again, finds the running processes and watches them.
States of gcloud, which creates the VM on demand, as a spot VM or as a queued resource:

    tpu-vm: (none) -> CREATING -> READY -> PREEMPTED, TERMINATED
    queued resource: WAITING_FOR_RESOURCES -> PROVISIONING -> ACTIVE -> SUSPENDED; FAILED

A preempted VM is deleted and created again; a VM that a user has stopped is left alone. Every command is printed before
it runs.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from trm_data.errors import DataError, DatasetNotFoundError, Exit
from trm_data.manifest import read_manifest
from trm_data.storage.root import Layout
from trm_train.config.overrides import take_option
from trm_train.errors import LaunchError
from trm_train.experiments.dataset import is_named
from trm_train.launch import scripts
from trm_train.launch.scripts import Answer, Source

RUNTIMES = {
    "v2": "tpu-ubuntu2204-base",
    "v3": "tpu-ubuntu2204-base",
    "v4": "tpu-ubuntu2204-base",
    "v5litepod": "v2-alpha-tpuv5-lite",
    "v5p": "v2-alpha-tpuv5",
    "v6e": "v2-alpha-tpuv6e",
}
"""Software version of a VM for each kind of TPU, as Google recommends for jax."""
LIMIT_S = 180.0
"""Timeout of a gcloud command (s)."""
CREATE_S = INSTALL_S = 1800.0
"""Timeouts for the creation of a TPU, and the installation of Python, jax and all other requirements (s)."""
REACHABLE_S = 600.0
"""Timeout for new hosts to accept connections, which takes minutes (s)."""
AGAIN_S = 10.0
"""Polling interval of a TPU that is being created (s)."""
CAPACITY_S = 60.0
"""Interval between requests for a TPU when none is free (s)."""
SILENT_LOOKS = 4
"""Consecutive polls without an answer before hosts count as lost; fewer may be a short network failure."""
RESTARTED = (Exit.FOUND, Exit.BUCKET, Exit.STALLED, Exit.TERMINATED, 134, 135, 137, 139)
"""Resumable exit codes: those of docs/troubleshooting.md, of a stalled process (1), and of processes killed by jax or
the system."""
PROBE = ".launch"
"""File written under the root and deleted again, to test write access."""
LOST = ("PREEMPTED", "TERMINATED", "FAILED", "SUSPENDED", "HIDDEN", "UNHIDING")
"""Final states of a VM: it must be deleted and created again."""
HELD = ("STOPPED", "STOPPING", "HIDING")
"""States of a VM that a user stopped or hid on purpose."""
FULL = re.compile(r"no more capacity|stockout|insufficient capacity|resource_pool_exhausted", re.IGNORECASE)

Say = Callable[[str], None]


class Done(NamedTuple):
    """Result of a command: exit code, standard output, and the last lines of standard error."""

    code: int
    out: str
    reason: str


@dataclass(kw_only=True)
class Tpu:
    """A TPU VM, and the run on its hosts.

    Attributes:
        name: Name of the VM, and of the queued resource.
        accelerator: Kind and size, such as v4-8.
        zone: Zone; None for that of the gcloud configuration.
        spot: Whether to use a cheaper VM that may be preempted.
        queued: Whether to request it through the queue.
        create: Additional arguments for the command that creates it.
        source: Source to install.
        run: Name of the run.
        words: Arguments of `trm-train` on every host, without those that connect the hosts.
        look_s: Polling interval (s).
        say: Shows a message.
        count: Number of hosts, known when the VM exists.
    """

    name: str
    accelerator: str
    zone: str | None = None
    spot: bool = False
    queued: bool = False
    create: tuple[str, ...] = ()
    source: Source
    run: str
    words: tuple[str, ...]
    look_s: float = 15.0
    say: Say
    count: int = 1
    _created: bool = False
    _printed: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        kind, _, size = self.accelerator.partition("-")
        if kind not in RUNTIMES or not size.isdecimal():
            kinds = ", ".join(RUNTIMES)
            raise LaunchError(f"--accelerator {self.accelerator}: expected KIND-SIZE, as v4-8, of {kinds}")

    @property
    def place(self) -> str:
        """Kind and name of the TPU."""
        return f"{self.accelerator} {self.name}"

    def gcloud(self, *words: str) -> list[str]:
        """Return a gcloud command for TPUs: kind of resource, verb, name, further words."""
        zone = [f"--zone={self.zone}"] if self.zone else []
        return ["gcloud", "compute", "tpus", *words[:3], *zone, *words[3:]]

    def creation(self) -> list[str]:
        """Return the command that creates it."""
        what, node, version = "tpu-vm", list[str](), "--version"
        if self.queued:
            what, node, version = "queued-resources", ["--node-id", self.name], "--runtime-version"
        words = self.gcloud(what, "create", self.name, *node, "--accelerator-type", self.accelerator)
        runtime = RUNTIMES[self.accelerator.partition("-")[0]]
        return [*words, version, runtime, *(["--spot"] if self.spot else []), *self.create]

    def deletion(self) -> list[str]:
        """Return the command that deletes it."""
        if self.queued:
            return self.gcloud("queued-resources", "delete", self.name, "--force", "--quiet")
        return self.gcloud("tpu-vm", "delete", self.name, "--quiet")

    def ssh(self, worker: str, script: str) -> list[str]:
        """Return the command that runs a script on a host, or on `all`."""
        return self.gcloud("tpu-vm", "ssh", self.name, f"--worker={worker}", "--quiet", f"--command={script}")

    def state(self) -> str:
        """Return the state of the VM, including its queued resource; empty if it does not exist."""
        if self.queued:
            queued = self._describe("queued-resources")
            state = "" if queued is None else str(queued.get("state", {}).get("state", ""))
            if state != "ACTIVE":
                return state
        described = self._describe("tpu-vm")
        if described is None:
            return "FAILED" if self.queued else ""  # only the queued resource is left
        kind = str(described.get("acceleratorType", "")).rpartition("/")[2]
        if kind != self.accelerator:
            raise LaunchError(
                f"{self.name} exists as {kind or 'something else'} (expected {self.accelerator}). "
                f"Choose another --name, or delete it"
            )
        self.count = len(described.get("networkEndpoints", [])) or 1
        return str(described.get("state", ""))

    def ensure(self) -> None:
        """Find or create the VM, replacing a preempted one, and wait until all its hosts answer."""
        before, self._created = "", False
        while (state := self.state()) != "READY":
            if state in HELD:
                raise LaunchError(
                    f"{self.place} is {state}, by request. Start it (gcloud compute tpus tpu-vm start "
                    f"{self.name}), delete it, or choose another --name"
                )
            if state in LOST and self._created:
                raise LaunchError(f"{self.place} was created, and is {state}")
            if state in LOST:
                self.say(f"{self.place} is {state}: deleting and creating it again")
                self.release()
            elif not state:
                self._create()
            else:
                if state != before:
                    self.say(f"{self.place} is {state}; waiting")
                before = state
                time.sleep(AGAIN_S)
        deadline = time.monotonic() + REACHABLE_S
        while len(self.ask(scripts.answered("here"))) < self.count:
            if time.monotonic() > deadline:
                raise LaunchError(f"{self.place}: not all of {self.count} hosts can be reached by ssh")
            time.sleep(AGAIN_S)

    def release(self) -> None:
        """Delete the VM and its queued resource."""
        done = self._run(self.deletion(), CREATE_S)
        if done.code and not _is_missing(done):
            raise LaunchError(f"{self.place} could not be deleted: {done.reason}")

    def everywhere(self, word: str, script: str, limit_s: float = LIMIT_S) -> None:
        """Run a script on all hosts; raise LaunchError unless each answers with a word."""
        done = self._run(self.ssh("all", script), limit_s)
        hosts = [answer.host for answer in scripts.answers(done.out) if answer.word == word]
        if len(hosts) < self.count:
            raise LaunchError(
                f"{len(hosts)} of {self.count} hosts {word}: {done.reason}; the same command resumes"
            )

    def ask(self, script: str) -> list[Answer]:
        """Run a script on all hosts, and return their answers."""
        return scripts.answers(self._run(self.ssh("all", script)).out)

    def look(self) -> list[Answer]:
        """Return the state of the run on each host; raise LaunchError if another run uses the hosts."""
        found = self.ask(scripts.look(self.run))
        if others := [f"the run {one.value} on {one.host}" for one in found if one.word == "other"]:
            raise LaunchError(
                f"{self.place} is in use: {', '.join(others)}. Wait for it, end it (trm-train launch ... --stop), or "
                "choose another --name"
            )
        return found

    def show_log(self, lines: int, show: Say) -> int:
        """Show the first host's log after some lines, up to its last whole line; return the number of lines shown."""
        done = self._run(self.ssh("0", scripts.log(self.run, lines)), key="log")
        _, found, text = done.out.partition(scripts.LOG_BEGINS)
        text = text[: text.rfind("\n") + 1] if found and not done.code else ""
        show(text)
        return lines + text.count("\n")

    def _create(self) -> None:
        done = self._run(self.creation(), CREATE_S)
        if FULL.search(done.reason):
            self.say(
                f"no {self.accelerator} is free; trying again every {CAPACITY_S:g} s (--queued waits in line, "
                f"another --zone may have one): {done.reason}"
            )
            time.sleep(CAPACITY_S)
            return
        self._created = True
        if done.code and "ALREADY_EXISTS" not in done.reason and "already exists" not in done.reason:
            raise LaunchError(f"{self.place} could not be created: {done.reason}")

    def _describe(self, what: str) -> dict[str, Any] | None:
        done = self._run(self.gcloud(what, "describe", self.name, "--format=json"))
        if _is_missing(done):
            return None
        try:
            if done.code:
                raise ValueError(done.reason)
            return dict(json.loads(done.out))
        except (ValueError, TypeError) as error:
            raise LaunchError(f"gcloud compute tpus {what} describe {self.name}: {error}") from error

    def _run(self, words: Sequence[str], limit_s: float = LIMIT_S, key: str = "") -> Done:
        """Run a command; of those with the same key or the same words, only the first is printed."""
        line = shlex.join(words)
        if (key or line) not in self._printed:
            self._printed.add(key or line)
            self.say(f"$ {line}")
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=limit_s
            )
        except FileNotFoundError:
            raise LaunchError(f"{words[0]} is not on the PATH of this machine") from None
        except subprocess.TimeoutExpired:
            return Done(124, "", f"no answer for {limit_s:g} s")
        out, err = (stream.decode("utf-8", "replace") for stream in (done.stdout, done.stderr))
        lines = [line.strip() for line in err.splitlines() if line.strip()]
        return Done(done.returncode, out, " ".join(lines[-3:]) or f"exit code {done.returncode}")


def _is_missing(done: Done) -> bool:
    return bool(done.code) and ("NOT_FOUND" in done.reason or "not found" in done.reason.lower())


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


def train(tpu: Tpu, restarts: int, show: Say) -> Outcome:
    """Train the run to its end, on a TPU that may be preempted.

    Args:
        tpu: The TPU with its run.
        restarts: Maximum number of restarts.
        show: Shows a piece of the log unchanged.
    """
    restart = 0
    while True:
        tpu.ensure()
        outcome = replace(_start_and_watch(tpu, show), restarts=restart)
        if outcome.state != "lost":
            return outcome
        if restart == restarts:
            return replace(outcome, state="failed", reason=f"{outcome.reason}; --restarts {restarts}")
        restart += 1
        # A restart never discards the run.
        tpu.words = tuple(take_option("--resume", list(tpu.words))[1])
        tpu.say(
            f"{tpu.run}: {outcome.reason}; it resumes from its last checkpoint (start {restart + 1} of "
            f"{restarts + 1} at most)"
        )
        time.sleep(tpu.look_s)


def stop(tpu: Tpu, show: Say) -> Outcome | None:
    """Ask the running process to save a checkpoint and exit, and wait for it; return None if nothing runs."""
    if tpu.state() != "READY" or not _running(tpu.look()):
        return None
    tpu.everywhere("asked", scripts.stop(tpu.run))
    tpu.say(f"{tpu.run}: asked to save a checkpoint and end")
    _watch(tpu, show)
    return Outcome(run=tpu.run, state="stopped")


def _start_and_watch(tpu: Tpu, show: Say) -> Outcome:
    try:
        tpu.everywhere("installed", scripts.install(tpu.source), INSTALL_S)
        hosts = tpu.look()
        if _running(hosts) and all(host.word != "absent" for host in hosts):
            tpu.say(f"{tpu.run}: is running; watching it")
        else:
            words = [*tpu.words, *(["--distributed"] if tpu.count > 1 else [])]
            tpu.everywhere("started", scripts.start(tpu.run, tpu.source, words))
            tpu.say(f"{tpu.run}: started on {tpu.place}")
    except LaunchError:
        if tpu.state() == "READY":
            raise
    return _watch(tpu, show)


def _watch(tpu: Tpu, show: Say) -> Outcome:
    """Show the log until the run has ended or its machines are lost."""
    lines = silent = 0
    while (state := tpu.state()) == "READY":
        hosts = tpu.look()
        lines = tpu.show_log(lines, show)
        silent = 0 if len(hosts) == tpu.count else silent + 1
        if silent == SILENT_LOOKS:
            return _lost(tpu.run, f"{len(hosts)} of {tpu.count} hosts answer")
        if not silent and not _running(hosts):
            return _ended(tpu.run, hosts)
        time.sleep(tpu.look_s)
    return _lost(tpu.run, f"{tpu.place} is {state or 'not there any more'}")


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
