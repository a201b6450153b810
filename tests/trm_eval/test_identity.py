"""The id of an evaluation depends on everything that determines its rows, and on nothing else."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.trm_eval.conftest import Evaluated
from trm_eval import identity
from trm_eval.identity import EvalRequest, Sampling, evaluation_id


def id_of(evaluated: Evaluated, **changes: Any) -> str:
    values: dict[str, Any] = {"record": evaluated.record, "request": EvalRequest(), "step": 12}
    values |= {"supervision_steps": 3, "dataset": evaluated.test}
    return evaluation_id(**{**values, **changes})


def test_the_same_evaluation_has_the_same_id(evaluated: Evaluated) -> None:
    assert id_of(evaluated) == id_of(evaluated) == evaluated.row["evaluation"]
    assert len(id_of(evaluated)) == 16
    named = EvalRequest(checkpoint="12", split="test", supervision_steps=3)  # the values of `last` and None
    assert id_of(evaluated, request=named) == id_of(evaluated)


@pytest.mark.parametrize(
    "changes",
    [
        {"step": 8},
        {"request": EvalRequest(weights="raw")},
        {"request": EvalRequest(mode="halting")},
        {"request": EvalRequest(identifiers="blank")},
        {"request": EvalRequest(sampling=Sampling(samples=2))},
        {"dataset": SimpleNamespace(split="validation", split_digest="0")},
        {"dataset": SimpleNamespace(split="test", split_digest="0")},
    ],
)
def test_what_decides_the_rows_changes_the_id(evaluated: Evaluated, changes: dict[str, Any]) -> None:
    assert id_of(evaluated, **changes) != id_of(evaluated)


@pytest.mark.parametrize("changes", [{"run": "tiny-00000000-s1"}, {"content_digest": "0"}])
def test_another_run_or_other_training_rows_change_the_id(
    evaluated: Evaluated, changes: dict[str, str]
) -> None:
    assert id_of(evaluated, record=replace(evaluated.record, **changes)) != id_of(evaluated)


def test_a_raised_version_changes_the_id(evaluated: Evaluated, monkeypatch: pytest.MonkeyPatch) -> None:
    before = id_of(evaluated)
    monkeypatch.setattr(identity, "EVALUATION_VERSION", identity.EVALUATION_VERSION + 1)
    assert id_of(evaluated) != before
