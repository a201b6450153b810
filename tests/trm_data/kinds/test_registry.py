"""The rest of the package has no names of kinds; the registry finds all kinds with few imports."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import trm_data.extensions
from trm_data.errors import SpecError
from trm_data.kinds.registry import (
    KindParts,
    built_in,
    find_kind,
    kind_names,
    load_kind,
    warm_module,
)

PACKAGE = Path(trm_data.__file__).parent
KNOW_NO_KIND = sorted(
    [
        *(PACKAGE / name for name in ("card.py", "specs.py", "export.py", "named.py", "manifest.py")),
        *(path for folder in ("commands", "engine", "verify") for path in (PACKAGE / folder).glob("*.py")),
    ]
)
KNOW_NO_KIND.remove(PACKAGE / "commands/import_.py")  # it makes imported rows


def named_kinds(tree: ast.Module) -> Iterator[str]:
    """Yield names of kinds in code: string literals, except values of a `Literal` or a format, and imported modules."""
    allowed: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and re.match(
            r".*Literal\[|\w+Format$", ast.unparse(node.annotation)
        ):
            allowed |= set(ast.walk(node))
    folders = {path.parent.name for path in PACKAGE.glob("kinds/*/options.py")}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in built_in() and node not in allowed:
            yield f"{node.lineno}: {node.value}"
        if isinstance(node, ast.ImportFrom) and node.module:
            parts = [*node.module.split("."), *(name.name for name in node.names)]
            if parts[:2] == ["trm_data", "kinds"] and parts[2] in folders:
                yield f"{node.lineno}: {node.module}"


@pytest.mark.parametrize("path", KNOW_NO_KIND, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_kind_is_known_by_name(path: Path) -> None:
    assert list(named_kinds(ast.parse(path.read_text("utf-8")))) == []


def test_a_name_in_code_is_found() -> None:
    code = (
        "from trm_data.kinds.maze.kind import MazeKind\nx: Literal['table'] = 'table'\nif kind == 'arc': pass"
    )
    assert list(named_kinds(ast.parse(code))) == ["1: trm_data.kinds.maze.kind", "3: arc"]


def test_every_kind_is_found_with_its_parts() -> None:
    assert set(built_in()) == {"sudoku", "maze", "arc", "table", "finished"}
    for name, parts in built_in().items():
        assert load_kind(name).name == name
        assert (PACKAGE.parent / f"{parts.warm.replace('.', '/')}.py").is_file() or not parts.warm
    assert "finished" not in kind_names()
    assert warm_module("nothing") == ""
    with pytest.raises(SpecError, match="no kind 'nothing'; there are: arc, maze, sudoku, table"):
        load_kind("nothing")


def test_an_entry_point_may_name_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    from trm_data.kinds import registry

    parts = KindParts(name="mine", implementation="trm_data.kinds.maze.kind:MazeKind", warm="mine_warm")

    class Entry:
        name = "mine"

        def load(self) -> KindParts:
            return parts

    def entry_points(*, group: str) -> list[Entry]:
        return [Entry()] if group == registry.ENTRY_POINTS else []

    monkeypatch.setattr(trm_data.extensions, "entry_points", entry_points)
    assert find_kind("mine") is parts
    assert load_kind("mine").name == "maze"
    assert kind_names()[-1] == "mine"


def test_a_package_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from trm_data.kinds import registry

    entry = EntryPoint("broken", "no_such_package:Kind", registry.ENTRY_POINTS)
    monkeypatch.setattr(trm_data.extensions, "entry_points", lambda group: [entry])
    with pytest.raises(SpecError, match="kind 'broken': no_such_package:Kind cannot be imported"):
        load_kind("broken")


def test_the_registry_imports_nothing_heavy() -> None:
    program = """
import sys
from trm_data.kinds.registry import built_in, spec_from_json
assert len(built_in()) == 5
heavy = {"numpy", "numba", "pyarrow", "duckdb", "grain"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=600)
