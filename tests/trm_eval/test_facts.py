"""Processes of one evaluation are compared by everything that determines their answers."""

from __future__ import annotations

from tests.trm_eval.conftest import Evaluated
from trm_eval.evaluation.prepare import evaluation_facts
from trm_eval.identity import EvalRequest, Sampling
from trm_train.hosts import differences


def test_what_differs_is_a_fact_of_its_own(evaluated: Evaluated) -> None:
    record, request = evaluated.record, EvalRequest()

    def facts(request: EvalRequest, step: int = 12, steps: int = 3) -> dict[str, object]:
        return evaluation_facts(record, request, step, steps, evaluated.test)

    assert differences([facts(request), facts(EvalRequest(checkpoint="12", split="test"))], str) == []
    others = {
        "checkpoint": facts(request, step=8),
        "supervision_steps": facts(request, steps=4),
        "limit": facts(EvalRequest(limit=3)),
        "traces": facts(EvalRequest(traces=1)),
        "identifiers": facts(EvalRequest(identifiers="blank")),
    }
    for name, other in others.items():
        (line,) = differences([facts(request), other], str)
        assert line.startswith(f"1: {name} is ")
    two, three = (facts(EvalRequest(sampling=Sampling(samples=number))) for number in (2, 3))
    assert differences([two, three], str) == ["1: sampling.samples is 3, of 0 2"]
