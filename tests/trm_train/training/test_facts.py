"""Processes of one run are compared by everything that determines their computation."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import trm_data
import trm_train
from tests.trm_train.test_loop import EXPERIMENT, TINY
from trm_data.manifest import read_manifest
from trm_data.storage.root import Layout
from trm_train.hosts import differences
from trm_train.runs.record import make_record
from trm_train.training.prepare import code_digest, training_facts


def test_what_differs_is_a_fact_of_its_own(small_layout: Layout) -> None:
    record = make_record(EXPERIMENT, TINY, read_manifest(small_layout, "small"))
    optim = dataclasses.replace(TINY.optim, lr=0.5)
    others = {
        "optim.lr": dataclasses.replace(record, config=dataclasses.replace(TINY, optim=optim)),
        "dataset content digest": dataclasses.replace(record, content_digest="0" * 64),
        "dataset identifiers digest": dataclasses.replace(record, identifiers_digest="0" * 64),
    }
    facts = training_facts(record, resume=True, extend=None)
    assert differences([facts, training_facts(record, resume=True, extend=None)], str) == []
    for name, other in others.items():
        (line,) = differences([facts, training_facts(other, resume=True, extend=None)], str)
        assert line.startswith(f"1: {name} is ")
    (line,) = differences([facts, training_facts(record, resume=False, extend=None)], str)
    assert line == "1: --resume never is true, of 0 false"


def test_other_code_has_another_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = code_digest(trm_data, trm_train)
    monkeypatch.setattr(trm_train, "__path__", [str(tmp_path)])
    (tmp_path / "a.py").write_text("x = 1\n")
    first = code_digest(trm_data, trm_train)
    (tmp_path / "a.py").write_text("x = 2\n")
    second = code_digest(trm_data, trm_train)
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert len({ours, first, second, code_digest(trm_data, trm_train)}) == 4
