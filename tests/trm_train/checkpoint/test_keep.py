"""Which weights are kept: the newest, those at an interval, and the best."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import run_here
from tests.multiprocess.processes import RUN
from trm_data.storage.root import Layout, resolve_root
from trm_train.checkpoint.manager import Keep, resume_steps, weights_steps
from trm_train.cli import main
from trm_train.metrics import read_metrics
from trm_train.runs.record import list_runs

STEPS = [10, 20, 30, 40, 50]
SCORES = {10: 0.1, 20: 0.9, 30: 0.3, 40: 0.9}


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        (Keep(), STEPS),
        (Keep(every=20), STEPS),
        (Keep(1), [50]),
        (Keep(2, best=False, scores=SCORES), [40, 50]),
        (Keep(1, scores=SCORES), [40, 50]),  # tie: the later one
        (Keep(1, scores={10: 0.5, 99: 0.9}), [10, 50]),  # deleted, or not validated
        (Keep(1, every=20, scores={30: 0.1}), [20, 30, 40, 50]),
        (Keep(1, scores={10: float("nan"), 20: 0.5, 30: float("nan")}), [20, 50]),
        (Keep(9), STEPS),
    ],
)
def test_what_stays(keep: Keep, kept: list[int]) -> None:
    assert sorted(keep.kept(STEPS)) == kept


@pytest.mark.integration
def test_a_run_keeps_the_newest_weights_and_the_best_over_two_starts(
    small_layout: Layout, tmp_path: Path
) -> None:
    (tmp_path / "datasets").symlink_to(small_layout.dataset("small").here.parent)
    options = [*RUN, "--root", str(tmp_path), "--execution.validate-every", "1", "--optim.lr-min-ratio", "1"]
    options += ["--execution.checkpoint-every", "1", "--execution.keep-weights", "1", "--total-steps", "4"]
    for more in (["--execution.keep-weights-every", "3"], ["--extend", "8"]):
        done = run_here(main, *options, *more)
        assert done.returncode == 0, done.stderr
        (run,) = list_runs(resolve_root(tmp_path))
        rows = [row for row in read_metrics(run).to_pylist() if row["split"] == "validation"]
        last = rows[-1]["step"]
        # The best is either kept from before, or came later.
        best = max(rows, key=lambda row: (row["exact_count"], row["step"]))["step"]
        assert set(weights_steps(run)) == ({3, best, last} if last == 4 else {best, last}), rows
        assert resume_steps(run) == [last - 1, last]
