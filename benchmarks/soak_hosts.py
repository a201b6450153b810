"""Many tiny steps in two processes: the memory of each, and the files that it has open, must not grow.

    python benchmarks/soak_hosts.py [STEPS]

Prints for each process resident memory (MB) and open files at a tenth of the steps, at half, and before the last ones.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.multiprocess.processes import RUN, free_address, start
from trm_data.storage.root import resolve_root
from trm_train.runs.record import list_runs
from trm_train.runs.status import read_status

BUILD = "build sudoku --box 2x2 --size 12 --aug 7 --val-size 4 --test-size 6 --name small --quiet"
COUNT = 2
POLL_S = 5.0


def main(steps: int) -> None:
    """Train a number of steps and print what was seen."""
    with tempfile.TemporaryDirectory() as folder:
        program = "import sys; from trm_data.cli import main; main(sys.argv[1:])"
        subprocess.run([sys.executable, "-c", program, *BUILD.split(), "--root", folder], check=True)
        together = ["--root", folder, "--coordinator", free_address(), "--num-processes", str(COUNT)]
        options = ["--total-steps", str(steps), "--execution.validate-every", "0", "--json"]
        options += ["--execution.checkpoint-every", "1000"]
        begun = time.monotonic()
        processes = [start([*RUN, *options, *together, "--process-id", str(i)]) for i in range(COUNT)]
        watched = [psutil.Process(process.pid) for process in processes]
        seen: list[tuple[int, list[tuple[float, int]]]] = []
        layout = resolve_root(folder)
        while all(process.poll() is None for process in processes):
            time.sleep(POLL_S)
            runs = list_runs(layout)
            status = read_status(runs[0]) if runs else None
            try:
                now = [(one.memory_info().rss / 1e6, one.num_fds()) for one in watched]
            except psutil.Error:
                break
            if status is not None:
                seen.append((status.step, now))
        ends = [process.communicate() for process in processes]
        assert all(not process.returncode for process in processes), [err[-2000:] for _, err in ends]
        print(f"{steps:,} steps in {time.monotonic() - begun:.0f} s")
        for share in (0.1, 0.5, 0.99):  # at the last step a checkpoint's files are open
            step, now = max((one for one in seen if one[0] <= share * steps), key=lambda one: one[0])
            said = "; ".join(f"process {i}: {mb:.0f} MB, {files} files" for i, (mb, files) in enumerate(now))
            print(f"  at step {step:,}: {said}")


if __name__ == "__main__":
    main(int(re.sub(r"\D", "", sys.argv[1])) if len(sys.argv) > 1 else 20_000)
