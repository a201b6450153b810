"""A root written by the first version still loads, resumes and answers SQL.

`tests/fixtures/format_1_root.tar.xz` holds a run that stopped at step 6 of 12, its two evaluations, and the meta of
the checkpoint that the undisturbed run wrote at step 12 (`expected_resume_12.json`). Its dataset is built again.
"""

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import jax
import pyarrow.parquet as pq
import pytest

from tests.conftest import as_users_run_it
from trm_data.cli import main as trm_data
from trm_eval.cli import main as trm_eval

FIXTURE = Path(__file__).parents[1] / "fixtures" / "format_1_root.tar.xz"
RUN = "quickstart-c583b53a-s0"
DATASET = "sudoku --box 2x2 --size 12 --aug 7 --val-size 4 --test-size 6 --name format-1"
OVERRIDES = (
    "--data.dataset format-1 --data.global-batch-size 4 --model.hidden-size 8 --model.num-heads 2 "
    "--model.num-layers 1 --total-steps 12 --optim.lr-warmup-steps 2 --execution.checkpoint-every 6 "
    "--execution.validate-every 6 --execution.log-every 3"
)


def call(main, *arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main([part for argument in arguments for part in argument.split(" ")])
    return int(ended.value.code or 0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with tarfile.open(FIXTURE) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # from Python 3.11.4 on
        archive.extractall(tmp_path)
    assert call(trm_data, f"build {DATASET} --root {tmp_path} --quiet") == 0
    return tmp_path


def test_a_run_of_the_first_version_goes_on_to_the_same_end(root: Path) -> None:
    expected = json.loads((root / "expected_resume_12.json").read_text())
    folder = root / "runs" / "quickstart" / "quickstart" / RUN
    losses = losses_of(folder)
    assert len(losses) == 14
    arguments = f"run quickstart {OVERRIDES} --tracking none --json --root {root}".split(" ")
    trained = subprocess.run(
        [Path(sys.executable).parent / "trm-train", *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env=as_users_run_it(),
    )
    result = json.loads(trained.stdout)
    assert (result["run"], result["started_at"], result["step"]) == (RUN, 6, 12)
    found = json.loads((folder / "checkpoints" / "resume" / "12" / "meta" / "metadata").read_text())
    assert found["identity"] == expected["identity"]
    assert found["content_digest"] == expected["content_digest"]
    assert set(found["fingerprints"]) == set(expected["fingerprints"])
    recorded = json.loads((folder / "config.json").read_text())["versions"]
    # The same bits come of the same library on the same kind of processor, of which the run says nothing.
    if recorded["jax"] != jax.__version__ or found["fingerprints"] != expected["fingerprints"]:
        assert losses_of(folder) == pytest.approx(losses, rel=1e-5)


def losses_of(folder: Path) -> dict[tuple[int, str], float]:
    """The loss by step and split, of all parts that a run wrote."""
    rows = [
        row
        for part in sorted((folder / "metrics").glob("*.parquet"))
        for row in pq.read_table(part).to_pylist()
    ]
    return {(row["step"], row["split"]): row.get("lm_loss", row.get("lm_loss_sum")) for row in rows}


def test_evaluations_of_the_first_version_answer_sql(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT step, count FROM evals ORDER BY step"
    with pytest.raises(SystemExit):
        trm_eval(["sql", query, "--format", "csv", "--root", str(root)])
    assert capsys.readouterr().out.splitlines() == ["step,count", "6,5", "12,6"]
    for name in ("accuracy_by_rating", "evals", "halting", "training_curve", "wrong_cells"):
        assert call(trm_eval, f"sql @{name} --format csv --root {root}") == 0
    rows = pq.read_table(root / "results" / "train_metrics" / "experiment=quickstart" / f"run={RUN}")
    assert rows.num_rows == 14


def test_a_checkpoint_of_the_first_version_is_evaluated(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(trm_eval, f"run {RUN} --checkpoint 12 --json --root {root}") == 0
    row = json.loads(capsys.readouterr().out.split("\n}\n")[-2] + "}")
    assert (row["step"], row["count"], row["cells"], row["wrong_cells"]) == (12, 6, 96, 67)
