"""Inference of an evaluation: every row all its supervision steps against rows that halt, compilation aside.

    python benchmarks/bench_eval.py RUN [--root R] [--steps 4 16] [--repeats 3] [--json PATH]

A trained run (`make demo` makes one) on its whole test split, averaged weights, with each number of supervision steps
at most: `max_steps` gives every row as many; `halting` stops a row as training does and gives its slot the next row.
Reports puzzles/s of each and their ratio, the supervision steps spent a puzzle, whose ratio is what halting can gain at
most, and the exact accuracy of both. The modes take turns, so that a machine that slows down slows both.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from report import Report

from trm_data.loader.dataset import open_dataset
from trm_data.storage.root import resolve_root
from trm_eval.evaluation.prepare import choose_step
from trm_eval.identity import EvalRequest, Mode
from trm_eval.infer import Answerer, compile_rollout, restore
from trm_eval.rollout import RowReader, choose_rows
from trm_train.runs.record import find_run, read_record
from trm_train.step.compile import use_compilation_cache

MODES: tuple[Mode, ...] = ("max_steps", "halting")


def main() -> None:
    """Measure, print the report; with --json also write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run")
    parser.add_argument("--root")
    parser.add_argument("--steps", type=int, nargs="+", default=[4, 16])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    use_compilation_cache()
    layout = resolve_root(arguments.root)
    run = find_run(layout, arguments.run)
    record = read_record(run)
    dataset = open_dataset(record.config.data.only_dataset(), layout, "test")
    reader = RowReader(dataset, "own", record.input_spec.num_identifiers)
    rows = choose_rows(len(dataset), 0, None)
    restored = restore(run, record, step=choose_step(run, "last"), weights="ema")
    report = Report(f"evaluation of {record.experiment}, {dataset.name}", packages=("jax", "jaxlib", "numpy"))
    for steps in arguments.steps:
        rollouts: dict[Mode, Answerer] = {
            mode: compile_rollout(restored, reader, EvalRequest(mode=mode), steps) for mode in MODES
        }
        rates: dict[Mode, list[float]] = {mode: [] for mode in MODES}
        spent: dict[Mode, float] = {}
        for repeat in range(arguments.repeats + 1):
            for mode, rollout in rollouts.items():
                seconds, spent[mode], exact = measured(rollout, rows)
                if repeat:
                    rates[mode].append(len(rows) / seconds)
                else:
                    report.note(f"{steps} steps at most, {mode}: exact {100 * exact:.2f}%")
        for mode in MODES:
            name = f"{mode}, {steps} steps at most"
            report.add(name, rates[mode], unit="puzzles/s", n=len(rows))
            report.add(name, [spent[mode]], unit="steps a puzzle", n=len(rows))
        ratios = [halting / fixed for fixed, halting in zip(*(rates[mode] for mode in MODES), strict=True)]
        report.add(f"halting / max_steps, {steps} steps", ratios, unit="times", n=len(rows))
        most = spent["max_steps"] / spent["halting"]
        report.note(
            f"{steps} steps at most: {statistics.median(ratios):.2f} times as fast, of {most:.2f} possible"
        )
    report.print()
    if arguments.json:
        report.write_json(arguments.json)


def measured(rollout: Answerer, rows: object) -> tuple[float, float, float]:
    """Seconds of inference over all rows, supervision steps a row, share of exact answers."""
    seconds = exact = 0.0
    spent = count = 0
    for inferred in rollout(rows):  # type: ignore[arg-type]
        seconds += inferred.seconds
        spent += inferred.spent
        count += len(inferred.rows)
        exact += inferred.metrics["exact_accuracy"]
    return seconds, spent / count, exact / count


if __name__ == "__main__":
    main()
