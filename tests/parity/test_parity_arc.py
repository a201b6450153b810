"""Our ARC votes match the published evaluator's answers, and the checker detects changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import PROJECT
from tests.support.scripts import load_script
from trm_data.kinds.arc.encode import encode_pair
from trm_data.kinds.arc.symmetry import ArcSymmetry

FIXTURE = PROJECT / "tests" / "fixtures" / "arc_vote.npz"


check = load_script(Path(__file__).parent / "check_arc.py")


def test_the_published_evaluator_answers_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main([str(FIXTURE)]) == 0, capsys.readouterr().out
    printed = capsys.readouterr().out
    with np.load(FIXTURE) as golden:
        expected = json.loads(golden["expected"].tobytes())
    assert all(name in printed for name in expected["pass_at_k"])
    attempts = sum(len(places) for places in expected["submission"].values()) * 2
    assert printed.count(" attempt_") == attempts


ONE, TWO, NONE = [[1, 2], [3, 4]], [[5]], [[0, 0, 0]]


@pytest.fixture
def arrays() -> dict[str, Any]:
    """Two tasks in this form: `a` is right first; in `b` one input is right second, and one has no prediction."""
    tasks = {
        "a": {"test": [{"input": ONE, "output": TWO}]},
        "b": {"test": [{"input": ONE, "output": ONE}, {"input": TWO, "output": TWO}]},
    }
    expected = {
        "pass_at_k": {"ARC/pass@1": 0.5, "ARC/pass@2": 0.75},
        "submission": {
            "a": [{"attempt_1": TWO, "attempt_2": TWO}],
            "b": [{"attempt_1": NONE, "attempt_2": ONE}, {"attempt_1": [], "attempt_2": []}],
        },
    }
    rows: list[dict[str, Any]] = []
    for number, (task, answer) in enumerate([("a", TWO), ("b", NONE), ("b", ONE), ("b", NONE)]):
        symmetry = ArcSymmetry.from_index(100_003 * number)
        images = [symmetry.apply(np.array(grid, np.uint8)) for grid in (ONE, answer)]
        inputs, predicted = encode_pair(*images)
        rows.append(
            {
                "task": task,
                "test_index": 0,
                "dihedral_id": symmetry.dihedral,
                "color_map": symmetry.colours,
                "input_tokens": inputs,
                "predicted_tokens": predicted,
                "q_halt_logit": 0.0,
            }
        )
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    texts = {"tasks": tasks, "expected": expected}
    return columns | {
        name: np.frombuffer(json.dumps(text).encode(), np.uint8) for name, text in texts.items()
    }


def checked(arrays: dict[str, Any], path: Path) -> int:
    np.savez(path / "votes.npz", **arrays)
    return check.main([str(path / "votes.npz")])


def test_a_test_input_without_predictions_keeps_its_place(
    arrays: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checked(arrays, tmp_path) == 0, capsys.readouterr().out
    expected = json.loads(arrays["expected"].tobytes())
    del expected["submission"]["b"][1]  # as the published evaluator does
    arrays["expected"] = np.frombuffer(json.dumps(expected).encode(), np.uint8)
    assert checked(arrays, tmp_path) == 0


def test_any_difference_is_exit_code_1(
    arrays: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (
        ("dihedral_id", np.array([0, 0, 0, 0])),
        ("q_halt_logit", np.array([0.0, 0.0, 3.0, -9.0])),
        ("predicted_tokens", np.zeros((4, 900), np.uint8)),
    ):
        changed = arrays | {name: value}
        if name == "q_halt_logit":  # one vote each, so that the more confident one leads
            changed = {key: rows[[0, 1, 2]] if len(rows) == 4 else rows for key, rows in changed.items()}
        assert checked(changed, tmp_path) == 1, name
        assert " NO" in capsys.readouterr().out
    expected = json.loads(arrays["expected"].tobytes())
    expected["pass_at_k"]["ARC/pass@2"] = 0.8
    expected["submission"]["b"][0]["attempt_2"] = [[1, 2], [3, 5]]
    changed = arrays | {"expected": np.frombuffer(json.dumps(expected).encode(), np.uint8)}
    assert checked(changed, tmp_path) == 1
    assert "2 of 10 differ" in capsys.readouterr().out


def test_unreadable_and_unsupported_files(
    arrays: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.npz").write_text("no predictions here")
    assert check.main([str(tmp_path / "text.npz")]) == 2
    assert check.main([str(tmp_path / "missing.npz")]) == 2
    assert check.main([]) == 2
    for changed, message in (
        ({name: rows for name, rows in arrays.items() if name != "color_map"}, "the file lacks color_map"),
        (arrays | {"test_index": np.array([0, 0, 0, 5])}, "('b', 5)"),
        (arrays | {"predicted_tokens": np.zeros((3, 900))}, "predicted_tokens: got (3, 900)"),
        (arrays | {"expected": np.frombuffer(b"{}", np.uint8)}, "lacks pass_at_k or submission"),
        (arrays | {"tasks": np.frombuffer(b"[", np.uint8)}, "`tasks` is not JSON"),
    ):
        assert checked(changed, tmp_path) == 2
        assert message in capsys.readouterr().err
