"""docs/python.md: its blocks run in order, with the results in their comments."""

from __future__ import annotations

import ast
import importlib
import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
BLOCK = re.compile(r"(<!-- for show: [^>]+ -->\n)?```python\n(.*?)```", re.DOTALL)


def run_block(source: str, names: dict[str, Any]) -> str:
    """Return the output of a block and the value of its last expression, as an interactive interpreter shows them."""
    tree = ast.parse(source)
    said = io.StringIO()
    with redirect_stdout(said):
        last = tree.body[-1]
        value = None
        if isinstance(last, ast.Expr):
            exec(compile(ast.Module(tree.body[:-1], []), str(PAGE), "exec"), names)
            value = eval(compile(ast.Expression(last.value), str(PAGE), "eval"), names)  # noqa: S307
        else:
            exec(compile(tree, str(PAGE), "exec"), names)
    return said.getvalue() + ("" if value is None else repr(value))


def test_every_block_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRM_ROOT", raising=False)
    names: dict[str, Any] = {}
    blocks = BLOCK.findall(PAGE.read_text())
    assert len(blocks) == 12
    assert sum(bool(marker) for marker, _ in blocks) == 1
    for marker, source in blocks:
        compile(source, str(PAGE), "exec")
        if marker:
            continue
        said = run_block(source, names)
        expected = re.findall(r"^# (.*)$", source, re.MULTILINE)
        for line in expected:
            assert line in said, source


def test_everything_public_is_found_and_has_help() -> None:
    import trm_data
    import trm_eval
    import trm_train

    for package in (trm_data, trm_train, trm_eval):
        for name in dir(package):
            if not name.startswith("_"):
                assert getattr(package, name).__doc__, f"{package.__name__}.{name}"
    assert {"build_dataset", "epoch", "list_datasets", "errors"} <= set(dir(trm_data))
    assert {"load", "statistics", "errors"} <= set(dir(trm_eval))


@pytest.mark.parametrize(
    "name", ["trm_data.Dataset", "trm_data.BatchLoader", "trm_data.Epoch", "trm_data.Mixture"]
)
def test_every_method_has_help(name: str) -> None:
    package, _, of = name.partition(".")
    made = getattr(importlib.import_module(package), of)
    for each, value in vars(made).items():
        if not each.startswith("_") and (callable(value) or isinstance(value, property)):
            assert value.__doc__, f"{name}.{each}"
