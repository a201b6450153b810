"""Processes join and leave a hundred times in a row: none hangs."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from tests.multiprocess.processes import ended, free_address

TIMES = 100
PROCESSES = 4
SCRIPT = """
import sys
from trm_train.hosts.join import join, place_of
hosts = join(place_of(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])), 60.0, lambda text: None)
with hosts.failing_together():
    hosts.prove_equal("what is done", {"nothing": True})
    hosts.barrier("the end")
"""


@pytest.mark.slow
def test_a_hundred_starts_in_a_row() -> None:
    """A process that hangs is killed after `processes.LIMIT_S`, and that start fails."""
    longest = 0.0
    for number in range(TIMES):
        address, begun = free_address(), time.monotonic()
        done = ended(
            [
                subprocess.Popen(
                    [sys.executable, "-W", "ignore", "-c", SCRIPT, address, str(PROCESSES), str(index)],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    env=os.environ | {"JAX_PLATFORMS": "cpu"},
                )
                for index in range(PROCESSES)
            ]
        )
        said = "\n".join(one.stderr[-2000:] for one in done)
        assert [one.returncode for one in done] == [0] * PROCESSES, f"start {number}: {said}"
        longest = max(longest, time.monotonic() - begun)
    print(f"{TIMES} starts of {PROCESSES} processes, the longest in {longest:.1f} s")
