"""SQL over a whole study of results: 67 runs, each tested on the 422,786 puzzles of Sudoku-Extreme.

    python benchmarks/bench_sql.py [--root DIR] [--runs 67] [--rows 422786] [--repeats 3] [--json PATH]

The answers are made up, the tables are not: they are written by the writers of `trm-eval run`, parts and digests as
they are, beside a dataset of as many generated 9x9 puzzles, whose catalog gives ratings; a fifth of the answers is
wrong. Reports, each in a process of its own: the first look (every digest is checked once), opening (a query of the
small tables), accuracy by experiment, by both experiment and rating (which stands in the predictions), by clues (which
are looked up in the dataset's catalog); the largest memory of a process. Targets: experiment and rating under 1.5 s,
opening under 0.3 s, memory under 1 GB. A root that is given is kept and used again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from report import Report

from trm_data.building.flow import build_dataset
from trm_data.catalog.read import read_ratings
from trm_data.kinds.sudoku.options import SudokuOptions
from trm_data.loader.dataset import open_dataset
from trm_data.manifest import read_manifest
from trm_data.sources.base import parse_source
from trm_data.specs import BuildRequest
from trm_data.storage.root import Layout, resolve_root
from trm_eval.evaluation.flow import publish_run
from trm_eval.evaluation.row import Tally, evals_row
from trm_eval.identity import EvalRequest, evaluation_id
from trm_eval.predictions import PredictionWriter
from trm_eval.rollout import Inferred
from trm_eval.tables.writer import replace_table
from trm_train.experiments.registry import load_experiments
from trm_train.runs.record import make_record, run_folder, write_record

DATASET = "sudoku-bench-sql"
BATCH = 8_192
QUERIES = {
    "opening": "SELECT count(*) FROM runs",
    "accuracy by experiment": """
        SELECT e.experiment, count(*), avg(p.exact::INT) FROM predictions AS p JOIN evals AS e USING (evaluation)
        GROUP BY ALL""",
    "accuracy by experiment and rating": """
        SELECT experiment, CASE WHEN rating = 0 THEN '0' WHEN rating <= 1 THEN '0 to 1' ELSE 'above 1' END AS rated,
               count(*) AS puzzles, avg(exact::INT) AS exact
        FROM predictions GROUP BY ALL ORDER BY ALL""",
    "@accuracy_by_rating": "@accuracy_by_rating",
    "accuracy by clues": """
        SELECT clues, count(*), avg(exact::INT) FROM predicted_puzzles GROUP BY ALL""",
}
TARGETS = {"opening": 0.3, "accuracy by experiment and rating": 1.5}
MAX_BYTES = 1e9

ASK = """
import json, resource, sys, time
begun = time.perf_counter()
from trm_data.storage.root import resolve_root
from trm_eval.tables.query import query_results
layout = resolve_root(sys.argv[1])
ready = time.perf_counter()
rows = len(query_results(layout, sys.argv[2]).rows)
done = time.perf_counter()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"imports": ready - begun, "query": done - ready, "rows": rows, "peak": peak}))
"""


def main() -> None:
    """Make the tables, ask, print the report; with --json also write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--root", type=Path)
    parser.add_argument("--runs", type=int, default=67)
    parser.add_argument("--rows", type=int, default=422_786)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = arguments.root or Path(temporary) / "root"
        if not (place / "results" / "evals").is_dir():
            make_study(resolve_root(place), arguments.runs, arguments.rows)
        report = Report(
            f"SQL over {arguments.runs} runs x {arguments.rows:,} predictions",
            packages=("duckdb", "pyarrow", "numpy"),
        )
        total = arguments.runs * arguments.rows
        bytes_there = sum(file.stat().st_size for file in (place / "results").rglob("*.parquet"))
        report.note(f"{total:,} predictions in {bytes_there / 1e6:,.0f} MB of Parquet")
        first = asked(place, QUERIES["accuracy by experiment"])
        report.add("first look, digests checked", [first["query"]], unit="s", n=total)
        peak = first["peak"]
        for name, query in QUERIES.items():
            answers = [asked(place, query) for _ in range(arguments.repeats + 1)][1:]
            report.add(name, [answer["query"] for answer in answers], unit="s", n=total)
            peak = max(peak, *(answer["peak"] for answer in answers))
            if name in TARGETS:
                median = sorted(answer["query"] for answer in answers)[len(answers) // 2]
                held = "reached" if median < TARGETS[name] else "MISSED"
                report.note(f"{held}: {name} under {TARGETS[name]} s, {median:.2f} s")
        report.add("memory", [peak / 1e6], unit="MB", n=total)
        report.note(f"{'reached' if peak < MAX_BYTES else 'MISSED'}: memory under {MAX_BYTES / 1e6:,.0f} MB")
        report.print()
        if arguments.json:
            report.write_json(arguments.json)


def asked(place: Path, query: str) -> dict[str, Any]:
    """What a process of its own says of a query."""
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(place), query], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def make_study(layout: Layout, runs: int, rows: int) -> None:
    """Results of made-up networks, in the tables as they are written."""
    build_dataset(
        BuildRequest(
            kind="sudoku",
            source=parse_source("generated"),
            size=100,
            aug=0,
            val_size=100,
            test_size=rows,
            seed=0,
            options=SudokuOptions(),
            name=DATASET,
        ),
        layout,
    )
    names = [name for name in load_experiments() if name.startswith(("exp", "contrib"))][:runs]
    for number, name in enumerate(names):
        experiment = load_experiments()[name]
        config = experiment.make(experiment.settings[-1])
        config = dataclasses.replace(
            config, data=dataclasses.replace(config.data, dataset=DATASET), seed=number
        )
        record = make_record(experiment, config, read_manifest(layout, DATASET))
        folder = run_folder(layout, experiment, config)
        write_record(folder, record)
        write_evaluation(layout, folder, record, rows, number)
        print(f"{number + 1:>3} of {len(names)}: {record.run}", flush=True)


def write_evaluation(layout: Layout, folder: Any, record: Any, rows: int, seed: int) -> None:
    """One evaluation of all rows of the test split."""
    dataset = open_dataset(record.config.data.dataset, layout, "test")
    request, steps = EvalRequest(), 16
    evaluation = evaluation_id(record, request, record.total_steps, steps, dataset)
    ratings = read_ratings(layout.dataset(dataset.name), dataset.manifest, "test")
    writer, tally = PredictionWriter(layout, record, evaluation, dataset, steps, ratings), Tally()
    labels = dataset.read(np.arange(len(dataset)))["labels"].astype(np.uint8)
    rng = np.random.default_rng(seed)
    for begin in range(0, rows, BATCH):
        at = np.arange(begin, min(begin + BATCH, rows))
        tokens = labels[at]
        wrong = rng.random(len(at)) < 0.2
        tokens[wrong] = rng.integers(2, 11, (int(wrong.sum()), tokens.shape[1]), np.uint8)
        right = (tokens == labels[at]).all(axis=1)
        inferred = Inferred(
            rows=at,
            predictions=tokens,
            q_halt_logits=rng.normal(2, 2, len(at)).astype(np.float32),
            halt_steps=rng.integers(0, steps, len(at), np.int32),
            steps=np.full(len(at), steps, np.int32),
            wrong_by_step=np.zeros((steps, len(at)), np.int32),
            metrics={
                "count": len(at),
                "exact_accuracy": int(right.sum()),
                "q_halt_accuracy": 0,
                "lm_loss": 0.0,
            },
            seconds=1.0,
            spent=steps * len(at),
        )
        tally.add(inferred, writer.add(inferred))
    writer.finish()
    publish_run(layout, record)
    row = evals_row(request, record.total_steps, dataset, writer, tally, rows, record)
    replace_table(layout, "evals", record.experiment, record.run, evaluation, [row])


if __name__ == "__main__":
    main()
