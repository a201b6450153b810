"""Records a small folder of results as the version at hand writes them, which later versions must still read.

python tests/compatibility/record.py tests/fixtures/results_<what>.tar.xz

Runs the real commands, so it may be run with the PYTHONPATH of an older checkout too: two tiny runs, one of Sudoku and
one of ARC, evaluated; what this version cannot do yet is left out. Kept are results, metrics and records of runs, and
what plain readers of Parquet count in them (`expected.json`). Datasets and checkpoints are not kept.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

SMALL = (
    "--data.global-batch-size 4 --model.hidden-size 8 --model.num-heads 2 --model.num-layers 1 --model.h-cycles 1 "
    "--model.l-cycles 1 --model.halt-max-steps 3 --total-steps 6 --optim.lr-warmup-steps 2 "
    "--execution.checkpoint-every 3 --execution.validate-every 3 --tracking none"
)
COMMANDS = (
    "trm-data build sudoku --box 2x2 --size 12 --aug 7 --val-size 4 --test-size 6 --name recorded --quiet",
    f"trm-train run quickstart --data.dataset recorded {SMALL}",
    "trm-eval run quickstart",
    "trm-eval run quickstart --checkpoint 3 --weights raw --limit 4",
    "? trm-eval run quickstart --mode halting",
    "? trm-eval run quickstart --samples 3",
    "? trm-eval run quickstart --checkpoint 3 --traces 2",
    "trm-data build arc --source repo:arc --subsets training,evaluation --aug 2 --val-size 1 --name recorded-arc",
    f"trm-train run sudoku_generated --data.dataset recorded-arc {SMALL}",
    "? trm-eval run sudoku_generated",
    "? trm-eval run sudoku_generated --adapt-steps 2",  # of earlier versions
)
"""Commands; a version may lack those with a question mark."""


def write_tasks(folder: Path) -> None:
    """Six small ARC tasks, of which the last has no solution."""

    def grid(number: int) -> list[list[int]]:
        return [[number % 10, number // 10 % 10], [(7 * number) % 10, 1 + number % 9]]

    for number in range(6):
        pairs = [
            {"input": grid(10 * number + place), "output": grid(3 + 10 * number + place)}
            for place in range(3)
        ]
        if number == 5:
            del pairs[2]["output"]
        place = folder / ("training" if number < 3 else "evaluation")
        place.mkdir(parents=True, exist_ok=True)
        (place / f"task{number}.json").write_text(json.dumps({"train": pairs[:2], "test": pairs[2:]}))


def main(target: Path) -> None:
    """Run the commands and pack what they wrote."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        write_tasks(home / "arc")
        for command in COMMANDS:
            program, *arguments = command.removeprefix("? ").split(" ")
            words = [Path(sys.executable).with_name(program), *arguments, "--root", "root"]
            done = subprocess.run(
                words, cwd=home, text=True, capture_output=True, env={**os.environ, "JAX_PLATFORMS": "cpu"}
            )
            print(f"{done.returncode} {command}")
            if done.returncode and not command.startswith("? "):
                sys.exit(done.stderr)
        root = home / "root"
        expected: dict[str, int] = {}
        named = named_parts(root)
        for path in sorted(root.glob("results/*/**/*.parquet")):
            table = path.relative_to(root).parts[1]
            if table not in ("predictions", "votes", "traces") or path.name.partition(".")[0] in named:
                expected[table] = expected.get(table, 0) + pq.ParquetFile(path).metadata.num_rows
        (root / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True))
        kept = [
            path
            for path in sorted(root.rglob("*"))
            if path.is_file()
            and path.relative_to(root).parts[0] in ("results", "runs", "expected.json")
            and not {"checkpoints", "logs"} & set(path.parts)
        ]
        with tarfile.open(target, "w:xz") as archive:
            for path in kept:
                archive.add(path, path.relative_to(root).as_posix(), filter=plain)
        print(f"{target}: {len(kept)} files, {target.stat().st_size:,} bytes, {expected}")


def named_parts(root: Path) -> set[str]:
    """Files that rows of `evals` name; an evaluation that failed leaves others."""
    rows = [
        row
        for path in root.glob("results/evals/**/*.parquet")
        for row in pq.ParquetFile(path).read().to_pylist()
    ]
    return {
        part
        for row in rows
        for column in ("parts", "vote_parts", "trace_parts")
        for part in row.get(column) or ()
    }


def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Nothing of who recorded it and when."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
