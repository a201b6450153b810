"""Imports are acyclic also between folders, including imports inside functions."""

import ast
from pathlib import Path

import trm_data

PACKAGE = Path(trm_data.__file__).parent


def imported(path: Path) -> set[str]:
    """Return the modules of this package that a file imports, also inside functions, but not for type checking."""
    tree = ast.parse(path.read_text("utf-8"))
    typing_only: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            typing_only |= set(ast.walk(node))
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node not in typing_only:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return found


def test_there_are_no_circles() -> None:
    files = {
        ".".join(["trm_data", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(
            ".__init__"
        ): path
        for path in PACKAGE.rglob("*.py")
        if path != PACKAGE / "__init__.py"
    }
    left = {name: (imported(path) & set(files)) - {name} for name, path in files.items()}
    while leaves := {name for name, needs in left.items() if not needs & set(left)}:
        left = {name: needs for name, needs in left.items() if name not in leaves}
    assert sorted(left) == []
