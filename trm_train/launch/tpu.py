"""A TPU VM of one or several hosts, created by gcloud: on demand, as a spot VM or as a queued resource.

    tpu-vm: (none) -> CREATING -> READY -> PREEMPTED, TERMINATED
    queued resource: WAITING_FOR_RESOURCES -> PROVISIONING -> ACTIVE -> SUSPENDED; FAILED

A preempted VM is deleted and created again; a VM that a user has stopped is left alone.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from trm_train.errors import CapacityError, LaunchError
from trm_train.launch.shell import Done, Shell
from trm_train.launch.source import Source
from trm_train.launch.target import AGAIN_S, Script, Target, Work

NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")
ZONE = re.compile(r"[a-z0-9-]+")
PROJECT = re.compile(r"[a-z0-9.:-]+")
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
CREATE_S = 1800.0
LOST = ("PREEMPTED", "TERMINATED", "FAILED", "SUSPENDED", "HIDDEN", "UNHIDING")
"""Final states of a VM: it must be deleted and created again."""
HELD = ("STOPPED", "STOPPING", "HIDING")
"""States of a VM that a user stopped or hid on purpose."""

REFUSALS = (
    (r"no more capacity|stockout|insufficient capacity|resource_pool_exhausted", "capacity"),
    (r"quota", "quota"),
    (r"reauthentication|unauthenticated|refresh.*token|gcloud auth login", "login"),
    (r"permission_?denied|permission .*denied|forbidden|does not have permission|\b403\b", "permission"),
    (r"has not been used in project|service_disabled|it is disabled", "api"),
)
"""Patterns of gcloud's error messages, and the kind of refusal."""


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
        kinds = ", ".join(RUNTIMES)
        found = ACCELERATOR.fullmatch(self.accelerator)
        if found is None or (self.runtime is None and found["kind"] not in RUNTIMES):
            raise LaunchError(f"--accelerator {self.accelerator}: expected KIND-SIZE, as v4-8, of {kinds}")
        for option, value, pattern in (
            ("name", self.name, NAME),
            ("zone", self.zone, ZONE),
            ("project", self.project, PROJECT),
            ("runtime", self.runtime, re.compile(r"[a-z0-9][a-z0-9.-]*")),
        ):
            if value is not None and not pattern.fullmatch(value):
                raise LaunchError(
                    f"--{option} {value!r}: expected lower-case letters, digits and -, starting with a letter"
                )

    @property
    def software(self) -> str:
        """Software version of the VM."""
        return self.runtime or RUNTIMES[self.accelerator.partition("-")[0]]

    @property
    def hosts(self) -> int:
        """Expected number of hosts; the created VM reports the real number."""
        kind, _, size = self.accelerator.partition("-")
        if kind in ("v5litepod", "v6e"):
            return 1 if int(size) <= 8 else int(size) // 4
        return max(int(size) // 8, 1)


class Tpu(Target):
    """A TPU VM.

    Args:
        shell: Runs commands.
        source: Source to install.
        extras: Optional extras of the package.
        request: Requested TPU.
    """

    def __init__(self, shell: Shell, source: Source, extras: Sequence[str], request: TpuRequest) -> None:
        super().__init__(shell, source, extras, devices=True)
        self._request = request
        self._count = request.hosts
        self._assumed = "" if shell.dry else "READY"

    @property
    @override
    def place(self) -> str:
        """Kind and name of the TPU."""
        return f"{self._request.accelerator} {self._request.name}"

    @property
    @override
    def count(self) -> int:
        return self._count

    @override
    def problems(self) -> list[str]:
        """Check login, project, zone, availability there, and that an existing TPU of this name has the same kind."""
        asked = self._shell.ask(
            ["gcloud", "auth", "list", "--filter=status:ACTIVE", "--format=value(account)"], assume="me"
        )
        if not asked.out.strip():
            return ["nobody is logged in to gcloud: gcloud auth login"]
        found: list[str] = []
        for option, given, key in (
            ("project", self._request.project, "project"),
            ("zone", self._request.zone, "compute/zone"),
        ):
            if given is None:
                asked = self._shell.ask(["gcloud", "config", "get-value", key], assume="set")
                if asked.out.strip() in ("", "(unset)"):
                    found.append(
                        f"no {option}: --{option} {option.upper()}, or gcloud config set {key} {option.upper()}"
                    )
        if found:
            return found
        offered = self._shell.ask(
            self._gcloud("accelerator-types", "describe", self._request.accelerator, "--format=json"),
            assume="{}",
        )
        if offered.code and "NOT_FOUND" in offered.err:
            return [
                f"{self._request.accelerator} is not offered in this zone: gcloud compute tpus accelerator-types list"
            ]
        if offered.code:
            return [str(refused(offered, self._request))]
        try:
            self._state()
        except LaunchError as error:
            return [str(error)]
        return []

    @override
    def ensure(self) -> None:
        """Find or create the VM, replacing a preempted one, and wait until all its hosts answer."""
        waited, created = "", False
        while (state := self._state()) != "READY":
            if state in HELD:
                raise LaunchError(
                    f"{self.place} is {state}, by request. Start it (gcloud compute tpus tpu-vm start "
                    f"{self._request.name}), delete it, or choose another --name"
                )
            if state in LOST and created:
                raise LaunchError(f"{self.place} was created, and is {state}{self._why_failed()}")
            if state in LOST:
                self._shell.say(f"{self.place} is {state}: deleting and creating it again")
                self.release()
            elif not state:
                self._create()
                created = True
            else:
                if state != waited:
                    self._shell.say(f"{self.place} is {state}; waiting")
                waited = state
                time.sleep(AGAIN_S)
        self.wait_until_reachable()

    @override
    def release(self) -> None:
        """Delete the VM and its queued resource."""
        done = self._shell.ask(self._delete(), limit_s=CREATE_S)
        self._assumed = ""
        if done.code and not _is_missing(done):
            raise refused(done, self._request)

    @override
    def leftover(self) -> str:
        """Name the VM, which costs money until it is deleted, and the command that deletes it."""
        try:
            if not self._state(once="leftover"):
                return ""
        except LaunchError:  # this gcloud error was already reported
            return ""
        return f"{self.place} is still there, and costs: {shlex.join(self._delete())}"

    @override
    def gone(self) -> str:
        state = self._state(once="describe")
        return "" if state == "READY" else f"{self.place} is {state or 'not there any more'}"

    @override
    def words(self, index: int, work: Work) -> list[str]:
        return [*work.words, *(["--distributed"] if self.count > 1 else [])]

    @override
    def ask_hosts(self, script: Script, *, assume: str, limit_s: float, once: str = "") -> list[Done]:
        assumed = "\n".join([f"trm-launch HOST {assume}"] * self.count)
        return [
            self._shell.ask(self._ssh("all", script(0)), assume=assumed, limit_s=limit_s + 60.0, once=once)
        ]

    @override
    def ask_first(self, script: str, *, assume: str, once: str = "") -> Done:
        return self._shell.ask(self._ssh("0", script), assume=f"trm-launch HOST {assume}", once=once)

    def _state(self, once: str = "state") -> str:
        """Return the state of the VM, including its queued resource; empty if it does not exist."""
        if self._request.queued:
            queued = self._describe("queued-resources", {"state": {"state": "ACTIVE"}}, once)
            state = "" if queued is None else str(queued.get("state", {}).get("state", ""))
            if state != "ACTIVE":
                return state
        node = {"state": "READY", "acceleratorType": self._request.accelerator}
        described = self._describe("tpu-vm", node, once)
        if described is None:
            return "FAILED" if self._request.queued else ""  # only the queued resource is left
        kind = str(described.get("acceleratorType", "")).rpartition("/")[2]
        if kind != self._request.accelerator:
            raise LaunchError(
                f"{self._request.name} exists as {kind or 'something else'} (expected {self._request.accelerator}). "
                f"Choose another --name, or delete it"
            )
        self._count = len(described.get("networkEndpoints", [])) or self._count
        return str(described.get("state", ""))

    def _describe(self, what: str, assumed: dict[str, Any], once: str) -> dict[str, Any] | None:
        words = self._gcloud(what, "describe", self._request.name, "--format=json")
        assume = json.dumps(assumed) if self._assumed else ""
        done = self._shell.ask(words, assume=assume, once=f"{once} {what}")
        if _is_missing(done) or (self._shell.dry and not assume):
            return None
        if done.code:
            raise refused(done, self._request)
        try:
            value = json.loads(done.out)
        except ValueError:
            raise LaunchError(f"{done.line}: did not answer with JSON: {done.out[:100]!r}") from None
        return value if isinstance(value, dict) else {}

    def _why_failed(self) -> str:
        """Return the reason that the queue gives for a failed request."""
        if not self._request.queued:
            return ""
        queued = self._describe("queued-resources", {}, "state") or {}
        failed = queued.get("state", {}).get("failedData", {}).get("error", {})
        return f": {failed['message']}" if "message" in failed else ""

    def _create(self) -> None:
        asked = self._request
        what, node, version = "tpu-vm", [], "--version"
        if asked.queued:
            what, node, version = "queued-resources", ["--node-id", asked.name], "--runtime-version"
        words = self._gcloud(what, "create", asked.name, *node, "--accelerator-type", asked.accelerator)
        words += [version, asked.software, *(["--spot"] if asked.spot else []), *asked.create]
        done = self._shell.ask(words, limit_s=CREATE_S)
        self._assumed = "READY"
        if done.code and "ALREADY_EXISTS" not in done.err and "already exists" not in done.err:
            raise refused(done, asked)

    def _delete(self) -> list[str]:
        if self._request.queued:
            return self._gcloud("queued-resources", "delete", self._request.name, "--force", "--quiet")
        return self._gcloud("tpu-vm", "delete", self._request.name, "--quiet")

    def _ssh(self, worker: str, script: str) -> list[str]:
        words = [f"--worker={worker}", "--quiet", f"--command={script}"]
        return self._gcloud("tpu-vm", "ssh", self._request.name, *words)

    def _gcloud(self, *words: str) -> list[str]:
        asked = self._request
        place = [f"--zone={asked.zone}"] if asked.zone else []
        place += [f"--project={asked.project}"] if asked.project else []
        return ["gcloud", "compute", "tpus", words[0], words[1], words[2], *place, *words[3:]]


def refused(done: Done, asked: TpuRequest) -> LaunchError:
    """Return an error that explains why gcloud refused, with the remedy."""
    said = done.err.lower()
    kind = next((meaning for pattern, meaning in REFUSALS if re.search(pattern, said)), "")
    where = asked.zone or "its zone"
    if kind == "capacity":
        return CapacityError(
            f"no {asked.accelerator} is free in {where}: --queued waits in line for one, or take another --zone "
            f"({done.reason})"
        )
    way_out = {
        "quota": f"the quota does not allow {'spot ' if asked.spot else ''}{asked.accelerator} in {where}: ask for "
        "more at https://console.cloud.google.com/iam-admin/quotas (service tpu.googleapis.com), or take another "
        "kind or zone, or another of --spot and on demand",
        "login": "the login of gcloud has ended: gcloud auth login",
        "permission": "this account may not do that: it needs the role TPU Admin (roles/tpu.admin) in the project",
        "api": "the project does not use TPUs yet: gcloud services enable tpu.googleapis.com",
    }
    return LaunchError(f"{way_out[kind]} ({done.reason})") if kind else done.failure()


def _is_missing(done: Done) -> bool:
    return bool(done.code) and ("NOT_FOUND" in done.err or "not found" in done.err.lower())
