"""Trains a run on a TPU VM of one or several hosts, and restarts it after preemptions.

    ensure -> install -> start -> watch --ended--> outcome
       ^                            |
       +---- preempted or lost ---+      the same command resumes from the last checkpoint

No state is stored here: the same launch command, started again, finds the running processes and watches them.

gcloud creates the VM: on demand, as a spot VM or as a queued resource.

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
from dataclasses import dataclass, replace
from typing import Any

from trm_data.command import Exit
from trm_data.errors import DataError, DatasetNotFoundError
from trm_data.manifest import read_manifest
from trm_data.storage.root import Layout
from trm_train.config.overrides import take_option
from trm_train.errors import CapacityError, LaunchError
from trm_train.experiments.dataset import is_named
from trm_train.launch import scripts
from trm_train.launch.scripts import Answer, Source

NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")
WORD = re.compile(r"[a-z0-9][a-z0-9.:-]*")
ACCELERATOR = re.compile(r"(?P<kind>v[0-9]+[a-z]*)-(?P<size>[0-9]+)")
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
LOST = ("PREEMPTED", "TERMINATED", "FAILED", "SUSPENDED", "HIDDEN", "UNHIDING")
"""Final states of a VM: it must be deleted and created again."""
HELD = ("STOPPED", "STOPPING", "HIDING")
"""States of a VM that a user stopped or hid on purpose."""
FULL = re.compile(r"no more capacity|stockout|insufficient capacity|resource_pool_exhausted", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class TpuRequest:
    """Requested TPU.

    Attributes:
        name: Name of the VM, and of the queued resource.
        accelerator: Kind and size, such as v4-8.
        zone: Zone; None for that of the gcloud configuration.
        project: Project; None for that of the gcloud configuration.
        runtime: Software version of the VM; None for the recommended one.
        spot: Whether to use a cheaper VM that may be preempted.
        queued: Whether to request it through the queue.
        create: Additional arguments for the command that creates it.
    """

    name: str
    accelerator: str
    zone: str | None = None
    project: str | None = None
    runtime: str | None = None
    spot: bool = False
    queued: bool = False
    create: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        found = ACCELERATOR.fullmatch(self.accelerator)
        if found is None or (self.runtime is None and found["kind"] not in RUNTIMES):
            kinds = ", ".join(RUNTIMES)
            raise LaunchError(f"--accelerator {self.accelerator}: expected KIND-SIZE, as v4-8, of {kinds}")
        given = {"name": self.name, "zone": self.zone, "project": self.project, "runtime": self.runtime}
        for option, value in given.items():
            if value is not None and not (NAME if option == "name" else WORD).fullmatch(value):
                raise LaunchError(f"--{option} {value!r}: expected lower-case letters, digits and -")

    def gcloud(self, *words: str) -> list[str]:
        """Return a gcloud command for TPUs: kind of resource, verb, name, further words."""
        place = [f"--zone={self.zone}"] if self.zone else []
        place += [f"--project={self.project}"] if self.project else []
        return ["gcloud", "compute", "tpus", *words[:3], *place, *words[3:]]

    def creation(self) -> list[str]:
        """Return the command that creates it."""
        what, node, version = "tpu-vm", list[str](), "--version"
        if self.queued:
            what, node, version = "queued-resources", ["--node-id", self.name], "--runtime-version"
        words = self.gcloud(what, "create", self.name, *node, "--accelerator-type", self.accelerator)
        runtime = self.runtime or RUNTIMES[self.accelerator.partition("-")[0]]
        return [*words, version, runtime, *(["--spot"] if self.spot else []), *self.create]

    def deletion(self) -> list[str]:
        """Return the command that deletes it."""
        if self.queued:
            return self.gcloud("queued-resources", "delete", self.name, "--force", "--quiet")
        return self.gcloud("tpu-vm", "delete", self.name, "--quiet")

    def ssh(self, worker: str, script: str) -> list[str]:
        """Return the command that runs a script on a host, or on `all`."""
        return self.gcloud("tpu-vm", "ssh", self.name, f"--worker={worker}", "--quiet", f"--command={script}")


@dataclass(frozen=True)
class Done:
    """Result of a command: exit code, standard output, and the last lines of standard error."""

    code: int
    out: str
    reason: str


class Tpu:
    """A TPU VM, and the runs on its hosts.

    Args:
        request: Requested TPU.
        source: Source to install.
        extras: Optional extras of the package.
        say: Shows a message.
    """

    def __init__(
        self, request: TpuRequest, source: Source, extras: Sequence[str], say: Callable[[str], None]
    ) -> None:
        self.request, self.source, self.extras, self._say = request, source, extras, say
        self.count = 1
        self._printed: set[str] = set()

    @property
    def place(self) -> str:
        """Kind and name of the TPU."""
        return f"{self.request.accelerator} {self.request.name}"

    def state(self) -> str:
        """Return the state of the VM, including its queued resource; empty if it does not exist."""
        if self.request.queued:
            queued = self._describe("queued-resources")
            state = "" if queued is None else str(queued.get("state", {}).get("state", ""))
            if state != "ACTIVE":
                return state
        described = self._describe("tpu-vm")
        if described is None:
            return "FAILED" if self.request.queued else ""  # only the queued resource is left
        kind = str(described.get("acceleratorType", "")).rpartition("/")[2]
        if kind != self.request.accelerator:
            raise LaunchError(
                f"{self.request.name} exists as {kind or 'something else'} (expected {self.request.accelerator}). "
                f"Choose another --name, or delete it"
            )
        self.count = len(described.get("networkEndpoints", [])) or 1
        return str(described.get("state", ""))

    def ensure(self) -> None:
        """Find or create the VM, replacing a preempted one, and wait until all its hosts answer."""
        before, created = "", False
        while (state := self.state()) != "READY":
            if state in HELD:
                raise LaunchError(
                    f"{self.place} is {state}, by request. Start it (gcloud compute tpus tpu-vm start "
                    f"{self.request.name}), delete it, or choose another --name"
                )
            if state in LOST and created:
                raise LaunchError(f"{self.place} was created, and is {state}")
            if state in LOST:
                self._say(f"{self.place} is {state}: deleting and creating it again")
                self.release()
            elif not state:
                self._create()
                created = True
            else:
                if state != before:
                    self._say(f"{self.place} is {state}; waiting")
                before = state
                time.sleep(AGAIN_S)
        deadline = time.monotonic() + REACHABLE_S
        while len(self.ask(scripts.answered("here"))) < self.count:
            if time.monotonic() > deadline:
                raise LaunchError(f"{self.place}: not all of {self.count} hosts can be reached by ssh")
            time.sleep(AGAIN_S)

    def release(self) -> None:
        """Delete the VM and its queued resource."""
        done = self._run(self.request.deletion(), CREATE_S)
        if done.code and not _is_missing(done):
            raise LaunchError(f"{self.place} could not be deleted: {done.reason}")

    def everywhere(self, word: str, script: str, limit_s: float = LIMIT_S) -> None:
        """Run a script on all hosts; raise LaunchError unless each answers with a word."""
        done = self._run(self.request.ssh("all", script), limit_s)
        hosts = [answer.host for answer in scripts.answers(done.out) if answer.word == word]
        if len(hosts) < self.count:
            raise LaunchError(
                f"{len(hosts)} of {self.count} hosts {word}: {done.reason}; the same command resumes"
            )

    def ask(self, script: str) -> list[Answer]:
        """Run a script on all hosts, and return their answers."""
        return scripts.answers(self._run(self.request.ssh("all", script)).out)

    def log(self, run: str, place: str) -> tuple[str, str]:
        """Return the first host's log of a run from a position on, and its end position."""
        done = self._run(self.request.ssh("0", scripts.log(run, place)), key="log")
        head, _, text = done.out.partition("\n")
        found = scripts.answers(head)
        if done.code or not found or found[0].word != "log" or not scripts.PLACE.fullmatch(found[0].value):
            return "", place
        return text, found[0].value

    def _create(self) -> None:
        done = self._run(self.request.creation(), CREATE_S)
        if FULL.search(done.reason):
            raise CapacityError(
                f"no {self.request.accelerator} is free: --queued waits in line for one, or take another --zone "
                f"({done.reason})"
            )
        if done.code and "ALREADY_EXISTS" not in done.reason and "already exists" not in done.reason:
            raise LaunchError(f"{self.place} could not be created: {done.reason}")

    def _describe(self, what: str) -> dict[str, Any] | None:
        done = self._run(self.request.gcloud(what, "describe", self.request.name, "--format=json"))
        if _is_missing(done):
            return None
        try:
            if done.code:
                raise ValueError(done.reason)
            return dict(json.loads(done.out))
        except (ValueError, TypeError) as error:
            raise LaunchError(f"gcloud compute tpus {what} describe {self.request.name}: {error}") from error

    def _run(self, words: Sequence[str], limit_s: float = LIMIT_S, key: str = "") -> Done:
        """Run a command; of those with the same key or the same words, only the first is printed."""
        line = shlex.join(words)
        if (key or line) not in self._printed:
            self._printed.add(key or line)
            self._say(f"$ {line}")
        try:
            done = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=limit_s,
            )
        except FileNotFoundError:
            raise LaunchError(f"{words[0]} is not on the PATH of this machine") from None
        except subprocess.TimeoutExpired:
            return Done(124, "", f"no answer for {limit_s:g} s")
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        return Done(done.returncode, done.stdout, " ".join(lines[-3:]) or f"exit code {done.returncode}")


def _is_missing(done: Done) -> bool:
    return bool(done.code) and ("NOT_FOUND" in done.reason or "not found" in done.reason.lower())


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


def train(launched: Launched, tpu: Tpu) -> Outcome:
    """Train a run to its end, on a TPU that may be preempted."""
    restarts = 0
    while True:
        _ensure(launched, tpu, patient=restarts > 0)
        outcome = replace(_start_and_watch(launched, tpu), restarts=restarts)
        if outcome.state != "lost":
            return outcome
        if restarts == launched.restarts:
            return replace(
                outcome, state="failed", reason=f"{outcome.reason}; --restarts {launched.restarts}"
            )
        restarts += 1
        # A restart never discards the run.
        launched = replace(launched, words=tuple(take_option("--resume", list(launched.words))[1]))
        launched.say(
            f"{launched.run}: {outcome.reason}; it resumes from its last checkpoint (start {restarts + 1} of "
            f"{launched.restarts + 1} at most)"
        )
        time.sleep(launched.look_s)


def stop(launched: Launched, tpu: Tpu) -> Outcome | None:
    """Ask a running process to save a checkpoint and exit, and wait for it; return None if nothing runs."""
    if tpu.state() != "READY" or not _running(_look(launched.run, tpu)):
        return None
    tpu.everywhere("asked", scripts.stop(launched.run))
    launched.say(f"{launched.run}: asked to save a checkpoint and end")
    deadline = time.monotonic() + FAREWELL_S
    while _running(_look(launched.run, tpu)):
        if time.monotonic() > deadline:
            raise LaunchError(
                f"{launched.run}: still runs on {tpu.place} {FAREWELL_S:.0f} s after the request to end"
            )
        time.sleep(launched.look_s)
    return Outcome(run=launched.run, state="stopped")


def _ensure(launched: Launched, tpu: Tpu, *, patient: bool) -> None:
    while True:
        try:
            tpu.ensure()
            return
        except CapacityError as error:
            if not patient:
                raise
            launched.say(f"{error}; retrying every {CAPACITY_S:.0f} s")
            time.sleep(CAPACITY_S)


def _start_and_watch(launched: Launched, tpu: Tpu) -> Outcome:
    try:
        tpu.everywhere("installed", scripts.install(tpu.source, tpu.extras), INSTALL_S)
        hosts = _look(launched.run, tpu)
        if _running(hosts) and all(host.word != "absent" for host in hosts):
            launched.say(f"{launched.run}: is running; watching it")
        else:
            words = [*launched.words, *(["--distributed"] if tpu.count > 1 else [])]
            tpu.everywhere("started", scripts.start(launched.run, tpu.source, words))
            launched.say(f"{launched.run}: started on {tpu.place}")
    except LaunchError:
        if (state := tpu.state()) == "READY":
            raise
        return _lost(launched.run, f"{tpu.place} is {state or 'not there any more'}")
    place, silent = "", 0
    while True:
        if (state := tpu.state()) != "READY":
            return _lost(launched.run, f"{tpu.place} is {state or 'not there any more'}")
        hosts = _look(launched.run, tpu)
        text = "the beginning"
        while text:
            text, place = tpu.log(launched.run, place)
            launched.show(text)
        silent = 0 if len(hosts) == tpu.count else silent + 1
        if silent == SILENT_LOOKS:
            return _lost(launched.run, f"{len(hosts)} of {tpu.count} hosts answer")
        if not silent and not _running(hosts):
            return _ended(launched.run, hosts)
        time.sleep(launched.look_s)


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
