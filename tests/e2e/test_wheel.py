"""The wheel works outside the checkout: it contains commands, SQL and queries."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with only the content of the wheel."""
    out = tmp_path_factory.mktemp("wheel")
    hatchling = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(hatchling, cwd=PROJECT, check=True, capture_output=True, timeout=600)
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(out / "site")
    assert not any(name.startswith(("tests/", "benchmarks/", "docs/")) for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {"trm_data/templates/card.md", "trm_eval/templates/report.html"} <= set(names)
    borrow_kernels(out / "site")
    return out / "site"


def borrow_kernels(site: Path) -> None:
    """Copy machine code that numba has cached for the same source files; compiling it would take a minute."""
    for file in site.rglob("*.py"):
        source = PROJECT / file.relative_to(site)
        if source.read_bytes() != file.read_bytes():
            continue
        shutil.copystat(source, file)  # numba compares the modification time
        for code in source.parent.glob(f"__pycache__/{file.stem}.*.nb[ic]"):
            (file.parent / "__pycache__").mkdir(exist_ok=True)
            shutil.copy(code, file.parent / "__pycache__")


def run(installed: Path, cwd: Path, program: str) -> str:
    """Run a program that sees the wheel before the checkout, from another folder."""
    environment = {**os.environ, "PYTHONPATH": str(installed), "TRM_ROOT": str(cwd / "root")}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=cwd, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_building_and_sql_work_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    arguments = str.split("build sudoku --box 2x2 --size 3 --aug 2 --val-size 0 --test-size 2")
    built = run(installed, tmp_path, f"from trm_data.cli import main; main({arguments!r})")
    assert "9 train, 2 test examples" in built
    program = (
        "from trm_eval.cli import main; main(['sql', 'SELECT count(*) FROM puzzles', '--format', 'csv'])"
    )
    assert run(installed, tmp_path, program).splitlines() == ["count_star()", "5"]
    where = run(installed, tmp_path, "import trm_data, catalogs; print(trm_data.__file__, catalogs.__file__)")
    assert all(path.startswith(str(installed)) for path in where.split())


def test_named_queries_and_experiments_are_inside(installed: Path, tmp_path: Path) -> None:
    assert "@accuracy_by_rating" in run(
        installed, tmp_path, "from trm_eval.cli import main; main(['queries'])"
    )
    assert "quickstart" in run(installed, tmp_path, "from trm_train.cli import main; main(['list'])")
