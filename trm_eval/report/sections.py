"""Last sections of a report: drawn puzzles (solved and failed), and its provenance.

The provenance has datasets with digests and build commands, runs, evaluations and differences.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from trm_data.errors import DataError
from trm_data.storage.root import Layout
from trm_eval.errors import EvalError
from trm_eval.export import build_command, find_manifest
from trm_eval.report.ask import ask, filled, without_root
from trm_eval.report.blocks import Block, Drawings, Heading, Query, Table, Text
from trm_eval.report.group import Group, Member
from trm_eval.show import ANSWERED_SQL, Answered, Which, answered_puzzles

SHOWN: dict[Which, int] = {"right": 2, "wrong": 2}
"""Number of puzzles shown for each run."""


def puzzle_blocks(layout: Layout, groups: Sequence[Group]) -> list[Block]:
    """Return puzzles of the best run on each set of test puzzles; if they cannot be drawn, the reason.

    A missing dataset is only reported, because the numbers of the report do not need it.
    """
    best: dict[str, Member] = {}
    for member in (member for group in groups for member in group.members):
        so_far = best.get(member.split_digest)
        if so_far is None or member.exact_accuracy > so_far.exact_accuracy:
            best[member.split_digest] = member
    blocks: list[Block] = [Heading("Puzzles")]
    for number, member in enumerate(best.values(), start=1):
        blocks += _of_run(layout, member, f"puzzles-{number}" if len(best) > 1 else "puzzles")
    return blocks


def _of_run(layout: Layout, member: Member, name: str) -> list[Block]:
    try:
        found: dict[Which, list[Answered]] = {
            which: answered_puzzles(layout, member.evaluation, count=count, which=which)
            for which, count in SHOWN.items()
        }
    except (DataError, EvalError) as error:
        return [Text(f"No puzzles of `{member.run}` are drawn: {without_root(layout, error)}")]
    blocks: list[Block] = [
        Text(
            f"The first test puzzles that `{member.run}` (no run of this report is better) solves, and the first that "
            "it does not. In an answer, given cells are bold and answered ones blue; wrong cells have a frame and a "
            "corner."
        )
    ]
    for which, answered in found.items():
        blocks += [
            Drawings(
                f"{name}-{which}-{puzzle.row}",
                puzzle.says,
                [("given", puzzle.puzzle), ("answer", puzzle.prediction), ("solution", puzzle.solution)],
            )
            for puzzle in answered
        ]
        if not answered:
            blocks.append(Text("It solves none." if which == "right" else "It fails at none."))
        sql = filled(ANSWERED_SQL[which], [member.evaluation, SHOWN[which]])
        blocks.append(Query(f"the puzzles that are {which}", sql))
    for puzzle in (found["right"] or found["wrong"])[:1]:
        said = f"trm-eval predict {member.run} --dataset {puzzle.dataset} --split {puzzle.split}"
        blocks.append(Text(f"Step by step: `{said} --row {puzzle.row} --trace --out steps.gif`"))
    return blocks


DATASETS_SQL = """\
SELECT r.dataset, r.content_digest, list(r.run ORDER BY r.run) AS runs, any_value(d.digest) AS digest_here,
       any_value(d.builder_version) AS builder_version, any_value(d.built_at) AS built_at
FROM runs AS r LEFT JOIN catalog.datasets AS d ON d.dataset = r.dataset
WHERE list_contains(?, r.run)
GROUP BY r.dataset, r.content_digest
ORDER BY r.dataset, r.content_digest"""

RUNS_SQL = """\
SELECT r.run, r.seed, r.dataset, r.differs, r.label, e.evaluation, e.step, e.weights, e.split, e.split_digest, e.count,
       e.code_version, e.created_at AS evaluated_at, r.created_at AS begun_at, r.versions, r.config
FROM evals AS e JOIN runs AS r ON r.run = e.run
WHERE list_contains(?, e.evaluation)
ORDER BY r.run, e.evaluation"""

DIGITS = 12
"""Digits of a digest on the page; the CSV has all digits."""


def provenance_blocks(layout: Layout, groups: Sequence[Group], problems: list[str]) -> list[Block]:
    """Return the section of a report on the sources of its numbers."""
    runs = sorted({member.run for group in groups for member in group.members})
    evaluations = sorted({evaluation for group in groups for evaluation in group.evaluations})
    tested = ask(layout, "runs and their tests", RUNS_SQL, [evaluations], problems)
    data = ask(layout, "datasets of the runs", DATASETS_SQL, [runs], problems)
    return [
        Heading("Where the numbers come from"),
        _dataset_table(layout, data.rows),
        data.query,
        _run_table(tested.rows),
        tested.query,
    ]


def _dataset_table(layout: Layout, rows: list[dict[str, Any]]) -> Table:
    facts: list[dict[str, Any]] = [
        {
            **row,
            "runs": len(row["runs"]),
            "built_by": " && ".join(
                filter(None, [_build_command_of(layout, name) for name in row["dataset"].split("+")])
            ),
            "here": "a mixture"
            if "+" in row["dataset"]
            else "not there"
            if row["digest_here"] is None
            else "the same rows"
            if row["digest_here"] == row["content_digest"]
            else "other rows",
        }
        for row in rows
    ]
    shown = [
        {
            "dataset": fact["dataset"],
            "content digest": f"`{fact['content_digest'][:DIGITS]}`",
            "runs": str(fact["runs"]),
            "under this root": fact["here"],
            "built by": f"`{fact['built_by']}`" if fact["built_by"] else "not known here",
        }
        for fact in facts
    ]
    return Table("datasets.csv", shown, facts)


def _build_command_of(layout: Layout, dataset: str) -> str:
    try:
        return build_command(dataset, find_manifest(layout, dataset))
    except DataError:  # the catalog reports the problem
        return ""


def _run_table(rows: list[dict[str, Any]]) -> Table:
    shown = [
        {
            "run": row["run"],
            "dataset": row["dataset"],
            "differs": row["differs"] or "-",
            "evaluation": row["evaluation"],
            "step": f"{row['step']:,}",
            "weights": row["weights"],
            "rows": f"{row['count']:,} of {row['split']}",
            "split digest": f"`{row['split_digest'][:DIGITS]}`",
            "trm-lab": " and ".join(sorted({json.loads(row["versions"])["trm-lab"], row["code_version"]})),
            "begun (UTC)": f"{row['begun_at']:%Y-%m-%d %H:%M}",
        }
        for row in rows
    ]
    return Table("provenance.csv", shown, rows)
