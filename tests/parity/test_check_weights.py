"""The published weights file answers as the published network does, and the checker detects changes."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from trm_train.weights import read_weights, write_weights_file

FIXTURES = Path(__file__).parent.parent / "fixtures"
PUBLISHED = FIXTURES / "published_checkpoint.safetensors"
EXPECTED = FIXTURES / "published_checkpoint_expected.npz"


@pytest.fixture
def check_weights(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import the script next to this file."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    return importlib.import_module("check_weights")


def test_the_published_file_gives_the_published_answers(
    check_weights: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check_weights.main([str(PUBLISHED), str(EXPECTED)]) == 0
    printed = capsys.readouterr().out
    assert "q_halt_logits" in printed
    assert "all within" in printed


def test_a_changed_number_is_found(check_weights: ModuleType, tmp_path: Path) -> None:
    tensors = read_weights(PUBLISHED)
    tensors["_orig_mod.model.inner.q_head.bias"][0] += 1e-3
    write_weights_file(tmp_path / "other.safetensors", tensors)
    rows = {
        row.quantity: row.ok
        for row in check_weights.check_weights(str(tmp_path / "other.safetensors"), str(EXPECTED))
    }
    assert rows == {"logits": True, "q_halt_logits": False}
    assert check_weights.main([str(tmp_path / "other.safetensors"), str(EXPECTED)]) == 1


def test_files_that_cannot_be_compared_are_errors(
    check_weights: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check_weights.main([str(PUBLISHED)]) == 2
    assert check_weights.main([str(tmp_path / "none.npz"), str(EXPECTED)]) == 2
    assert check_weights.main([str(PUBLISHED), str(PUBLISHED)]) == 2
    with np.load(EXPECTED) as expected:
        arrays = dict(expected)
    del arrays["logits"]
    np.savez(tmp_path / "part.npz", **arrays)
    assert check_weights.main([str(PUBLISHED), str(tmp_path / "part.npz")]) == 2
    assert "logits" in capsys.readouterr().err
