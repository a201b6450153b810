"""A stand-in `gcloud` for TPUs: its machines are folders, and it really runs their commands.

All files are in the folder `$FAKE_CLOUD`: `state.json`, `calls` (a line for each command), the home folders
`hosts/<vm>-<boot>/<host>`, and these options of a test:

    account, project, zone    logged-in account and settings of gcloud; missing means unset
    offered                   accelerators of every zone, one per line
    refuse                    error message of the next `create`; the file is then deleted
    preempt                   when the VM is preempted after the next start of a run, one per line: seconds; the path of
                              a file to wait for; or `logged`, when the launch has read a log with five steps
    preempting                exists while waiting for `logged`, so that the run can wait too
    silent                    ssh does not answer
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CLOUD = Path(os.environ["FAKE_CLOUD"])


def changed(change: Callable[[dict[str, Any]], Any]) -> Any:
    """Change the state under a lock."""
    with (CLOUD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = CLOUD / "state.json"
        state = json.loads(path.read_text()) if path.exists() else {"vms": {}, "queue": {}, "boots": 0}
        answer = change(state)
        path.write_text(json.dumps(state))
        return answer


def setting(name: str) -> str:
    path = CLOUD / name
    return path.read_text().strip() if path.exists() else ""


def fail(text: str) -> None:
    sys.exit(f"ERROR: (gcloud.compute.tpus) {text}")


def take_line(name: str) -> str:
    """Remove the first line of a file and return it."""
    first, _, rest = setting(name).partition("\n")
    (CLOUD / name).write_text(rest)
    return first


def end_processes(machine: str) -> None:
    """Kill all processes on a machine of this cloud, as a preemption does."""
    marks = {f"FAKE_MACHINE={machine}".encode(), f"FAKE_CLOUD={CLOUD}".encode()}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if marks <= set((process / "environ").read_bytes().split(b"\0")):
                os.kill(int(process.name), signal.SIGKILL)
        except (OSError, ValueError):
            continue


def preempt_later(machine: str, name: str, when: str) -> None:
    """Preempt a VM after some time, or when a file exists, from a process that outlives this one."""
    if os.fork():
        return
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    if when.startswith("/"):
        wait_until(Path(when).exists)
    elif when == "logged":
        wait_until(lambda: lines("steps") >= 5)
        asked = lines("calls", "tail -n")
        wait_until(lambda: lines("calls", "tail -n") >= asked + 2)  # the first of the two has been answered
    else:
        time.sleep(float(when))
    preempt(machine, name)
    (CLOUD / "preempting").unlink(missing_ok=True)
    os._exit(0)


def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.05)


def lines(file: str, word: str = "") -> int:
    """Return the number of lines of a file that contain a word."""
    path = CLOUD / file
    return sum(word in line for line in path.read_text().splitlines()) if path.exists() else 0


def preempt(machine: str, name: str) -> None:
    def change(state: dict[str, Any]) -> None:
        state["vms"].get(name, {})["state"] = "PREEMPTED"
        if name in state["queue"]:
            state["queue"][name]["state"]["state"] = "SUSPENDED"

    changed(change)
    end_processes(machine)
    shutil.rmtree(CLOUD / "hosts" / machine, ignore_errors=True)


def create(name: str, options: dict[str, str], queued: bool) -> None:
    if setting("refuse"):
        text = setting("refuse")
        (CLOUD / "refuse").unlink()
        fail(text)

    def change(state: dict[str, Any]) -> None:
        if name in state["vms"]:
            fail(f"ALREADY_EXISTS: {name}")
        state["boots"] += 1
        kind = options["accelerator-type"]
        state["vms"][name] = {
            "name": f"projects/p/locations/z/nodes/{name}",
            "state": "CREATING" if queued else "READY",  # on demand, the command returns when the VM exists
            "acceleratorType": kind,
            "networkEndpoints": [{"ipAddress": f"10.0.0.{i}"} for i in range(int(kind.split("-")[1]) // 8)],
            "boot": state["boots"],
        }
        if queued:
            state["queue"][name] = {"state": {"state": "WAITING_FOR_RESOURCES"}}

    changed(change)


def describe(name: str, what: str) -> None:
    """Print the state; every call advances a machine that is being created by one state."""
    order = {"CREATING": "READY", "WAITING_FOR_RESOURCES": "PROVISIONING", "PROVISIONING": "ACTIVE"}

    def change(state: dict[str, Any]) -> dict[str, Any]:
        there = state["queue" if what == "queued-resources" else "vms"].get(name)
        if there is None:
            fail(f"NOT_FOUND: Resource 'projects/p/locations/z/nodes/{name}' was not found")
        shown = json.loads(json.dumps(there))
        if what == "queued-resources":
            there["state"]["state"] = order.get(there["state"]["state"], there["state"]["state"])
        else:
            there["state"] = order.get(there["state"], there["state"])
        return shown

    print(json.dumps(changed(change)))


def delete(name: str, what: str) -> None:
    def change(state: dict[str, Any]) -> dict[str, Any] | None:
        there = state["vms"].pop(name, None)
        queued = state["queue"].pop(name, None)
        if there is None and queued is None:
            fail(f"NOT_FOUND: {name}")
        if what == "tpu-vm" and queued is not None:
            fail("belongs to a queued resource")
        return there

    there = changed(change)
    if there is not None:
        machine = f"{name}-{there['boot']}"
        end_processes(machine)
        shutil.rmtree(CLOUD / "hosts" / machine, ignore_errors=True)


def ssh(name: str, options: dict[str, str]) -> None:
    there = changed(lambda state: state["vms"].get(name))
    if there is None or there["state"] != "READY" or setting("silent"):
        fail("[255] ssh: connect to host: Connection refused")
    count, machine = len(there["networkEndpoints"]), f"{name}-{there['boot']}"
    chosen = range(count) if options["worker"] == "all" else [int(options["worker"])]
    starts = "setsid" in options["command"] and setting("preempt")
    if starts and setting("preempt").startswith("logged"):
        (CLOUD / "preempting").touch()
    started = []
    for index in chosen:
        home = CLOUD / "hosts" / machine / f"w-{index}"
        home.mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ,
            "HOME": str(home),
            "PATH": os.pathsep.join([str(CLOUD / "host_bin"), os.environ["PATH"]]),
            "FAKE_MACHINE": machine,
            "FAKE_HOST": f"t1v-{machine}-w-{index}",
            "JAX_COORDINATOR_ADDRESS": setting("coordinator"),
            "JAX_NUM_PROCESSES": str(count),
            "JAX_PROCESS_ID": str(index),
        }
        words = ["bash", "-c", options["command"]]
        started.append(subprocess.Popen(words, cwd=home, env=environment, stdin=subprocess.DEVNULL))
    codes = [one.wait() for one in started]
    if starts:
        preempt_later(machine, name, take_line("preempt"))
    if any(codes):
        fail(f"[{max(codes)}] a host failed")


def main(words: list[str]) -> None:
    with (CLOUD / "calls").open("a") as calls:
        calls.write(" ".join(words).replace("\n", " ") + "\n")
    options = {word[2:].partition("=")[0]: word.partition("=")[2] for word in words if word.startswith("--")}
    for word, value in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("--") and "=" not in word and not value.startswith("--"):
            options[word[2:]] = value
    if words[:2] == ["auth", "list"]:
        print(setting("account"))
        return
    if words[:2] == ["config", "get-value"]:
        print(setting({"project": "project", "compute/zone": "zone"}[words[2]]) or "(unset)")
        return
    assert words[:2] == ["compute", "tpus"], words
    what, verb, name = words[2:5]
    if what == "accelerator-types":
        if name not in setting("offered").split():
            fail(f"NOT_FOUND: Resource 'acceleratorTypes/{name}' was not found")
        print("{}")
    elif verb == "create":
        create(name, options, what == "queued-resources")
    elif verb == "describe":
        describe(name, what)
    elif verb == "delete":
        assert "--quiet" in words
        delete(name, what)
    elif verb == "ssh":
        ssh(name, options)
    else:
        raise AssertionError(words)


if __name__ == "__main__":
    main(sys.argv[1:])
