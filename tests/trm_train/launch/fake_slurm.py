"""A stand-in Slurm: `sbatch SCRIPT` runs a job to its end, `srun` its tasks; `scontrol requeue` repeats the job.

The job and its tasks have the Slurm variables that jax reads. `$FAKE_CLOUD/requeue` lists the jobs to repeat.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

CLOUD = Path(os.environ["FAKE_CLOUD"])
REQUEUE = CLOUD / "requeue"


def sbatch(script: str) -> int:
    """Run a job, repeat it while it asks to be requeued, and return the exit code of its script."""
    text = Path(script).read_text()
    options = dict(
        re.findall(r"--([a-z-]+)(?:=(\S+))?", "\n".join(re.findall(r"^#SBATCH (.*)$", text, re.M)))
    )
    job = os.environ.get("FAKE_JOB", "1")
    tasks = int(options["nodes"]) * int(options["ntasks-per-node"])
    environment = {**os.environ, "SLURM_JOB_ID": job, "SLURM_NTASKS": str(tasks)}
    log = Path(options["output"].replace("%x", options["job-name"]))
    while True:
        REQUEUE.write_text("")
        with log.open("ab" if options["open-mode"] == "append" else "wb") as file:
            code = subprocess.run(["bash", script], env=environment, stdout=file, stderr=file).returncode
        if REQUEUE.read_text() != job:
            return code


def srun(words: list[str]) -> int:
    """Run all tasks in parallel; return the highest exit code."""
    count = int(os.environ["SLURM_NTASKS"])
    step = {"SLURM_STEP_NODELIST": "localhost", "SLURM_LOCALID": "0", "SLURM_STEP_NUM_NODES": "1"}
    tasks = [
        subprocess.Popen(words, env={**os.environ, **step, "SLURM_PROCID": str(index)})
        for index in range(count)
    ]
    return max(task.wait() for task in tasks)


def main(program: str, words: list[str]) -> int:
    if program == "sbatch":
        return sbatch(words[0])
    if program == "srun":
        return srun(words)
    assert (program, words[0]) == ("scontrol", "requeue")
    REQUEUE.write_text(words[1])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
