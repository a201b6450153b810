"""The notebook of the documentation: from puzzles to answers in Python, with what its cells gave when it was written.

    python tools/notebook.py [--out docs/notebook.ipynb]

Cells are run in a new root, one after the other, as a notebook would (some two minutes on two cores); what they print
and what their last line gives becomes their output. Format: nbformat 4.5, which is JSON.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
SIZES = "PUZZLES, AUG, STEPS = 500, 100, 600"
"""The line of the first cell that says how much is done; tests do less."""

ABOUT = """\
# From puzzles to answers

A dataset of 6x6 Sudokus is built, a tiny recursive model learns it for two minutes on two cores, and its answers are
looked at, as pictures and by SQL. Everything lies under `$TRM_ROOT`, else `./trm`; run again, nothing is built or
trained twice. [docs/python.md](python.md) says more of every step."""

CELLS: tuple[tuple[str, str], ...] = (
    ("markdown", ABOUT),
    ("code", f"import polars as pl\n\nimport trm_data\nimport trm_eval\nimport trm_train\n\n{SIZES}"),
    (
        "markdown",
        "## Puzzles\n\nOf every training puzzle there are images under its symmetries; none is in the test split.",
    ),
    (
        "code",
        """\
train = trm_data.build_dataset(
    "sudoku", box="2x3", size=PUZZLES, aug=AUG, val_size=100, test_size=200, name="notebook", quiet=True
)
train""",
    ),
    ("code", "train.puzzle(0)"),
    (
        "code",
        """\
trm_data.sql(
    "SELECT split, count(*) AS puzzles, avg(clues) AS clues, max(rating) AS hardest FROM puzzles "
    "GROUP BY split ORDER BY split"
)""",
    ),
    (
        "markdown",
        "## Training\n\nThe same as `trm-train run quickstart`, with some options of its configuration changed.",
    ),
    (
        "code",
        """\
run = trm_train.train(
    "quickstart",
    dataset="notebook",
    total_steps=STEPS,
    execution={"validate_every": STEPS // 4, "checkpoint_every": STEPS // 2},
    quiet=True,
)
print(run.name)""",
    ),
    (
        "code",
        """\
run.metrics().filter(pl.col("split") == "validation").select("step", "exact_accuracy", "accuracy")""",
    ),
    ("markdown", "## Answers\n\nA puzzle of the test split, answered after every supervision step."),
    (
        "code",
        """\
test = trm_data.open_dataset("notebook", split="test")
solver = trm_eval.load(run.name)
solver.solve(test[0]["inputs"])""",
    ),
    ("markdown", "The whole test split, and what became of it by how hard the puzzles are:"),
    (
        "code",
        """\
print(trm_eval.evaluate(run, quiet=True))
trm_eval.sql("@accuracy_by_rating").select("rating_bucket", "puzzles", "exact", "exact_percent")""",
    ),
)


def main() -> int:
    """Run the cells and write the notebook."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=PROJECT / "docs" / "notebook.ipynb")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        os.environ["TRM_ROOT"] = root
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        cells = run_cells(CELLS, root)
    arguments.out.write_text(as_json(cells), "utf-8")
    print(arguments.out)
    return 0


def run_cells(cells: tuple[tuple[str, str], ...], root: str) -> list[dict[str, Any]]:
    """Every cell as the format has it, those of code with their outputs; `root` is called `trm` in them."""
    names: dict[str, Any] = {}
    found: list[dict[str, Any]] = []
    for number, (kind, source) in enumerate(cells):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
        cell["source"] = source.splitlines(keepends=True)
        if kind == "code":
            count = sum(one["cell_type"] == "code" for one in found) + 1
            cell |= {"execution_count": count, "outputs": run_cell(source, names, count, root)}
        found.append(cell)
    return found


def run_cell(source: str, names: dict[str, Any], count: int, root: str) -> list[dict[str, Any]]:
    """What a cell prints, and what its last line gives where that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {count}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {count}", "eval"), names)  # noqa: S307
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue().replace(root, "trm"):
        outputs.append({"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if (html := getattr(value, "_repr_html_", lambda: None)()) is not None:
            data["text/html"] = html.splitlines(keepends=True)
        outputs.append(
            {"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": data}
        )
    return outputs


def as_json(cells: list[dict[str, Any]]) -> str:
    """The file."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    notebook = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.exit(main())
