"""Imported published weights are evaluated like any run, and answer as the published network does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import run_here
from tests.trm_train.training.published_files import EXPECTED, NAMES, NETWORK, PUBLISHED, add_dataset
from trm_data.storage.root import resolve_root
from trm_eval.cli import main as trm_eval
from trm_eval.tables.query import sql
from trm_train.cli import main as trm_train


@pytest.mark.integration
def test_an_imported_run_is_evaluated_to_the_published_answers(tmp_path: Path) -> None:
    layout = resolve_root(tmp_path / "root")
    add_dataset(layout, "three", tmp_path, NAMES)
    (tmp_path / "identifiers.json").write_text(json.dumps(NAMES))
    words = ["import-weights", str(PUBLISHED), "--as", "quickstart", "--dataset", "three", *NETWORK]
    words += ["--identifiers", str(tmp_path / "identifiers.json"), "--root", layout.place, "--json"]
    run = json.loads(run_here(trm_train, *words).stdout)["run"]
    done = run_here(trm_eval, "run", run, "--root", layout.place, "--json")
    assert done.returncode == 0, done.stderr
    rows = sql("FROM predictions ORDER BY row", layout).to_dicts()
    with np.load(EXPECTED) as expected:
        answers, halting = expected["logits"].argmax(-1), expected["q_halt_logits"]
    assert [row["prediction"] for row in rows] == answers.tolist()
    assert np.allclose([row["q_halt_logit"] for row in rows], halting, atol=1e-4)
