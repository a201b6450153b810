"""The size limits of CONTRIBUTING: outlines, functions, and the top level of `trm_data`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.conftest import PROJECT

PACKAGES = ("trm_data", "trm_train", "trm_eval")
MODULES = [path for package in PACKAGES for path in sorted((PROJECT / package).rglob("*.py"))]
OUTLINE_LINES, FUNCTION_LINES, TOP_MODULES = 200, 60, 14
ALL_MODULES, ALL_LINES = 301, 50_888


@pytest.mark.parametrize(
    "path", ["building/flow.py", "verify/flow.py", "training/loop.py", "evaluation/flow.py"]
)
def test_an_outline_is_short(path: str) -> None:
    (outline,) = [module for module in MODULES if module.as_posix().endswith(path)]
    assert outline.read_text("utf-8").count("\n") < OUTLINE_LINES


def test_a_function_is_short_where_it_is_no_kernel() -> None:
    """Docstrings do not count."""
    long = [
        f"{path.relative_to(PROJECT)}: {name} has {lines} lines"
        for path in MODULES
        if not path.stem.endswith("kernels")
        for name, lines in functions(path)
        if lines > FUNCTION_LINES
    ]
    assert long == []


def functions(path: Path) -> list[tuple[str, int]]:
    """Return name and length of every function of a module, without its docstring."""
    found: list[tuple[str, int]] = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            said = len((ast.get_docstring(node) or "").splitlines())
            found.append((node.name, (node.end_lineno or node.lineno) - node.lineno + 1 - said))
    return found


def test_the_top_of_the_data_package_can_be_read() -> None:
    assert (
        len([path for path in (PROJECT / "trm_data").glob("*.py") if not path.stem.startswith("__")])
        <= TOP_MODULES
    )


def test_the_packages_do_not_grow_without_a_reason() -> None:
    assert len(MODULES) <= ALL_MODULES
    assert sum(path.read_text("utf-8").count("\n") for path in MODULES) <= ALL_LINES
