"""Pages of the dashboard over a root with thousands of runs: the first visit of each, a later one, and a query.

    python benchmarks/bench_dashboard.py [--root DIR] [--runs 5000] [--repeats 3] [--json PATH]

The runs are made up, their files are not: records, status files, metric parts and one evaluation of each run are
written by the writers of training and of `trm-eval run`. Each page runs in a process of its own, as Streamlit runs
it, without a browser; a later visit comes after everything that the dashboard keeps is too old. Targets: 10 s for
the first visit, 3 s for later ones. A root that is given is kept and used again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from bench_sql import asked, write_evaluation
from report import Report

from trm_data.building.flow import build_dataset
from trm_data.kinds.sudoku.options import SudokuOptions
from trm_data.manifest import read_manifest
from trm_data.sources.base import parse_source
from trm_data.specs import BuildRequest
from trm_data.storage.root import Layout, resolve_root
from trm_data.storage.store import Folder
from trm_train.config.run import RunConfig, identity_hash
from trm_train.experiments.registry import load_experiments
from trm_train.metrics import MetricTable
from trm_train.runs.record import RunRecord, make_record, run_folder, run_name, write_record
from trm_train.runs.status import STATUS_FILE, Status, status_bytes

DATASET = "sudoku-bench-dashboard"
ROWS = 100
"""Puzzles of the test split."""
STEPS, WINDOW = 1000, 50
"""Of each run, and between two rows of its metrics."""
PAGES = ("runs", "curves", "evaluations", "puzzles")
FIRST_S, LATER_S = 10.0, 3.0

VISIT = """
import json, sys, time
from streamlit.testing.v1 import AppTest
SCRIPT = '''
from trm_eval.serve import curves, evaluations, parts, puzzles, runs
for module in (runs, evaluations):
    module.link = lambda page, label: None  # there are no other pages here
with parts.errors_shown():
    {page}.show()
'''
from trm_eval.serve.server import LISTED_S
from trm_eval.tables.index import keep_for
keep_for(LISTED_S)
page, visits = sys.argv[1], int(sys.argv[2])
app = AppTest.from_string(SCRIPT.format(page=page), default_timeout=600)
seconds = []
for visit in range(visits):
    if visit:
        time.sleep(9)
    begun = time.perf_counter()
    app.run()
    seconds.append(time.perf_counter() - begun)
    assert not app.exception and not app.error, [app.exception, app.error]
print(json.dumps(seconds))
"""


def main() -> None:
    """Make the root, visit its pages, print the report; with --json also write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--root", type=Path)
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = arguments.root or Path(temporary) / "root"
        if not (place / "results" / "evals").is_dir():
            make_runs(resolve_root(place), arguments.runs)
        report = Report(
            f"Dashboard over {arguments.runs:,} runs", packages=("streamlit", "duckdb", "pyarrow")
        )
        for page in PAGES:
            first, *later = visit(place, page, arguments.repeats + 1)
            report.add(f"{page}, first visit", [first], unit="s", n=arguments.runs)
            report.add(f"{page}, later visits", later, unit="s", n=arguments.runs)
            slowest = max(later)
            held = "reached" if first < FIRST_S and slowest < LATER_S else "MISSED"
            report.note(f"{held}: {page}: {first:.1f} s first, {slowest:.1f} s later")
        times = [asked(place, "SELECT count(*) FROM runs")["query"] for _ in range(arguments.repeats + 1)]
        report.add("a query, each in a new process", times, unit="s", n=arguments.runs)
        report.print()
        if arguments.json:
            report.write_json(arguments.json)


def visit(place: Path, page: str, visits: int) -> list[float]:
    """Seconds of each visit of a page, by a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", VISIT, page, str(visits)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TRM_ROOT": str(place)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def make_runs(layout: Layout, runs: int) -> None:
    """Runs of made-up networks on one small dataset, each with metrics and an evaluation."""
    build_dataset(
        BuildRequest(
            kind="sudoku",
            source=parse_source("generated"),
            size=100,
            aug=0,
            val_size=20,
            test_size=ROWS,
            seed=0,
            options=SudokuOptions(),
            name=DATASET,
        ),
        layout,
    )
    experiments = [
        item
        for name, item in load_experiments().items()
        if name.startswith(("exp", "contrib")) and not item.make(item.settings[-1]).data.is_mixture
    ]
    records: dict[str, RunRecord] = {}
    for number in range(runs):
        item = experiments[number % len(experiments)]
        config = item.make(item.settings[-1])
        config = dataclasses.replace(
            config, data=dataclasses.replace(config.data, dataset=DATASET), seed=number // len(experiments)
        )
        if item.name not in records:
            records[item.name] = make_record(item, config, read_manifest(layout, DATASET))
        record = of_seed(records[item.name], config)
        folder = run_folder(layout, item, config)
        write_record(folder, record)
        write_training(folder, number)
        write_evaluation(layout, folder, record, ROWS, number)
        if number % 100 == 0:
            print(f"{number:>5,} of {runs:,}: {record.run}", flush=True)


def of_seed(record: RunRecord, config: RunConfig) -> RunRecord:
    """The record of the same run with another seed."""
    name = run_name(record.experiment, config)
    return dataclasses.replace(record, config=config, identity=identity_hash(config), run=name)


def write_training(folder: Folder, number: int) -> None:
    """Metric parts and the status of a run that has ended."""
    table = MetricTable(folder)
    for step in range(1, STEPS + 1):
        if step % WINDOW == 0:
            loss = 64 * (2.0 * 0.998**step + 0.1 * (number % 7))
            shared = {
                "step": step,
                "global_batch_size": 64,
                "seconds": step / 10,
                "step_s": 0.1,
                "dataset": None,
            }
            table.add({**shared, "split": "train", "count": 64, "lm_loss": loss, "accuracy": 50.0, "exact_accuracy": 9,
                       "steps": 640})  # fmt: skip
            table.add(
                {**shared, "split": "validation", "count": 20, "accuracy": 12.0, "exact_accuracy": step // 60}
            )
        if step % (STEPS // 2) == 0:
            table.take_part(step)
            table.write_parts()
    now = datetime.now(UTC).isoformat()
    status = Status(
        state="finished", step=STEPS, total_steps=STEPS, examples_per_s=640.0, loss=0.3, heartbeat=now,
        seconds=100.0, compile_s=5.0, host="bench", process=1, started_at=now, exact_accuracy=0.8,
    )  # fmt: skip
    folder.write(STATUS_FILE, status_bytes(status))


if __name__ == "__main__":
    main()
