"""A Slurm of this machine: `sbatch` runs a job at once in the background, `srun` runs a task for each node.

In the folder `$FAKE_CLOUD/slurm` every job is a file `<id>.json`; what a test wants are files of `$FAKE_CLOUD`:

    pending    jobs wait, as where no nodes are free
    requeue    seconds after which the next job is taken its nodes and waits again, a line each
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

CLOUD = Path(os.environ["FAKE_CLOUD"])
JOBS = CLOUD / "slurm"


def jobs() -> list[tuple[Path, dict[str, Any]]]:
    """The jobs in the queue."""
    found = [(path, json.loads(path.read_text())) for path in sorted(JOBS.glob("*.json"))]
    return [(path, job) for path, job in found if job["state"] in ("PENDING", "RUNNING")]


def change(path: Path, **fields: Any) -> dict[str, Any]:
    job = {**json.loads(path.read_text()), **fields}
    new = path.with_suffix(".new")
    new.write_text(json.dumps(job))
    new.rename(path)
    return job


def sbatch(options: dict[str, str]) -> None:
    JOBS.mkdir(exist_ok=True)
    path = JOBS / f"{len(list(JOBS.glob('*.json'))) + 1}.json"
    path.write_text(json.dumps({**options, "state": "PENDING", "pid": 0}))
    print(path.stem)
    sys.stdout.flush()
    if os.fork():
        return
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    attend(path)
    os._exit(0)


def attend(path: Path) -> None:
    """Run a job to its end, as the controller does; one that is taken its nodes begins again."""
    while True:
        while (CLOUD / "pending").exists():
            if json.loads(path.read_text())["state"] == "CANCELLED":
                return
            time.sleep(0.05)
        job = json.loads(path.read_text())
        if job["state"] == "CANCELLED":
            return
        with Path(job["output"]).open("ab") as log:
            environment = {**os.environ, "SLURM_JOB_ID": path.stem, "FAKE_NODES": job["nodes"]}
            words = ["sh", "-c", job["wrap"]]
            process = subprocess.Popen(
                words, cwd=job["chdir"], stdout=log, stderr=log, env=environment, start_new_session=True
            )
        change(path, state="RUNNING", pid=process.pid)
        requeue = CLOUD / "requeue"
        if not requeue.exists() or not requeue.read_text().strip():
            process.wait()
            change(path, state="ENDED")
            return
        first, _, rest = requeue.read_text().partition("\n")
        requeue.write_text(rest)
        time.sleep(float(first))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        change(path, state="PENDING")
        time.sleep(0.5)


def srun(words: list[str]) -> None:
    count = int(os.environ["FAKE_NODES"])
    tasks = [
        subprocess.Popen(words, env={**os.environ, "SLURM_PROCID": str(i), "FAKE_HOST": f"n{i}"})
        for i in range(count)
    ]
    (JOBS / f"{os.environ['SLURM_JOB_ID']}.tasks").write_text(" ".join(str(one.pid) for one in tasks))
    sys.exit(max(task.wait() for task in tasks))


def descendants(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    children = [int(word) for word in listed.stdout.split()]
    return [pid, *(each for child in children for each in descendants(child))]


def scancel(options: dict[str, str]) -> None:
    for path, job in jobs():
        if job["job-name"] != options["name"]:
            continue
        if "signal" not in options:
            change(path, state="CANCELLED")
            continue
        assert options["signal"] == "TERM"
        for task in (JOBS / f"{path.stem}.tasks").read_text().split():
            for pid in descendants(int(task)):
                with suppress(ProcessLookupError):  # a command of the job that has ended meanwhile
                    os.kill(pid, signal.SIGTERM)


def main(program: str, words: list[str]) -> None:
    with (CLOUD / "calls").open("a") as calls:
        calls.write(" ".join([program, *words]).replace("\n", " ") + "\n")
    options = {word[2:].partition("=")[0]: word.partition("=")[2] for word in words if word.startswith("--")}
    if program == "sbatch":
        sbatch(options)
    elif program == "srun":
        srun(words)
    elif program == "scancel":
        scancel(options)
    else:
        for _, job in jobs():
            if options.get("name", job["job-name"]) == job["job-name"]:
                print(f"{job['state']} (Resources)")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
