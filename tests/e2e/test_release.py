"""What a release hands out: archives as the package index takes them, and a wheel that installs with every extra."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PROJECT

EXTRAS = ("hf", "gcs", "arc", "ray", "serve", "cuda", "tpu")


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, timeout=120)
    return sorted(folder.iterdir())


def test_they_pass_the_check_of_the_index(archives: list[Path]) -> None:
    assert [path.suffix for path in archives] == [".whl", ".gz"] or [path.suffix for path in archives] == [
        ".gz",
        ".whl",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *archives],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2


@pytest.mark.slow
@pytest.mark.parametrize("extra", EXTRAS)
def test_the_wheel_installs_with_every_extra_in_an_empty_environment(
    archives: list[Path], tmp_path: Path, extra: str
) -> None:
    """The accelerators' libraries are gigabytes: of those it is only resolved what would be installed."""
    (wheel,) = (path for path in archives if path.suffix == ".whl")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "empty"], check=True, timeout=120)
    pip = [
        tmp_path / "empty" / "bin" / "python",
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
    ]
    large = extra in ("cuda", "tpu")
    done = subprocess.run(
        [*pip, *(["--dry-run"] if large else []), f"{wheel}[{extra}]"],
        capture_output=True,
        text=True,
        timeout=1200,
    )
    if "Could not find a version" in done.stderr and "jax" not in done.stderr:
        pytest.skip(f"needs a package index: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stderr
    if not large:
        said = subprocess.run(
            [tmp_path / "empty" / "bin" / "trm-data", "--help"], capture_output=True, text=True, timeout=60
        )
        assert said.returncode == 0, said.stderr
