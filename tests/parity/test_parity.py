"""Our training and evaluation steps match golden numbers, and the checker detects changes."""

from __future__ import annotations

import functools
import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import as_users_run_it
from tests.support.scripts import load_script
from trm_train import objective as losses
from trm_train.model import recursion

FIXTURES = Path(__file__).parent.parent / "fixtures"
MLP_T = FIXTURES / "trm_parity_mlp_t.npz"
ATTENTION = FIXTURES / "trm_parity_attention_rope.npz"
BASELINES = [FIXTURES / f"trm_parity_{name}.npz" for name in ("hrm", "single_z", "transformer")]
IN_SECOND_TIER = [pytest.param(path, marks=pytest.mark.integration) for path in (ATTENTION, *BASELINES)]


check = load_script(Path(__file__).parent / "check.py")


def failures(path: Path, last_step: int = 1) -> set[str]:
    """Return the quantities that exceed their bound, up to a step."""
    rows = check.check_fixture(str(path))
    wanted = itertools.takewhile(lambda row: not row.quantity.startswith(f"step{last_step + 1}/"), rows)
    return {row.quantity for row in wanted if not row.ok}


@functools.cache
def checked(path: Path) -> str:
    """Return the output of the script, run as users do, with XLA's default optimizations."""
    done = subprocess.run(
        [sys.executable, Path(__file__).parent / "check.py", path],
        capture_output=True,
        text=True,
        timeout=300,
        env=as_users_run_it(),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("path", [MLP_T, *IN_SECOND_TIER], ids=lambda path: path.stem)
def test_golden_numbers(path: Path) -> None:
    printed = checked(path)
    assert "step5/out/logits" in printed
    assert "eval/out/logits" in printed
    assert "ema" in printed


@pytest.mark.parametrize("path", [MLP_T, *IN_SECOND_TIER[1:]], ids=lambda path: path.stem)
def test_every_step_and_quantity_is_compared(path: Path) -> None:
    with np.load(path) as golden:
        names = {
            n for n in golden.files if "/params/" not in n and not n.startswith(("init/", "ema/", "conf"))
        }
    compared = {word for line in checked(path).splitlines() for word in line.split()}
    loaded = {f"step{n}/batch/{key}" for n in range(1, 6) for key in check.ROW_KEYS}
    assert names - compared - loaded - {"hyperparameters"} == set()
    assert {"step1/params", "step5/params", "ema"} <= compared


@pytest.mark.integration
def test_goes_red_with_gradient_through_every_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recursion, "without_gradient", lambda module: module)
    monkeypatch.setattr(recursion.lax, "stop_gradient", lambda x: x)
    red = failures(MLP_T)
    assert any(name.startswith("step1/grad/inner.L_level") for name in red)
    assert "step1/out/logits" not in red


@pytest.mark.integration
def test_goes_red_with_another_halting_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "HALT_LOSS_WEIGHT", 1.0)
    red = failures(MLP_T)
    assert "step1/loss" in red
    assert "step1/grad/inner.q_head.bias" in red


def test_unreadable_and_unsupported_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.npz"
    text.write_text("no numbers here")
    assert check.main([str(text)]) == 2
    assert check.main([str(tmp_path / "missing.npz")]) == 2
    with np.load(MLP_T) as golden:
        arrays = dict(golden)
    other = tmp_path / "other.npz"
    config = arrays["config"].tobytes().replace(b'"batch_size"', b'"architecture": "gru", "batch_size"')
    np.savez(other, **(arrays | {"config": np.frombuffer(config, np.uint8)}))
    assert check.main([str(other)]) == 2
    assert "'gru'" in capsys.readouterr().err
    del arrays["step3/carry/z_H"]
    np.savez(other, **arrays)
    assert check.main([str(other)]) == 2
    assert "step3/carry/z_H" in capsys.readouterr().err


@pytest.mark.integration
def test_a_wrong_number_is_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with np.load(MLP_T) as golden:
        arrays = dict(golden)
    arrays["step2/out/preds"] = arrays["step2/out/preds"] + np.eye(6, 16, dtype=np.int64)
    changed = tmp_path / "changed.npz"
    np.savez(changed, **arrays)
    assert check.main([str(changed)]) == 1
    assert "1 quantities beyond their bound" in capsys.readouterr().out
