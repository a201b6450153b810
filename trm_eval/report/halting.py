"""The supervision steps at which networks would halt: how many puzzles each of them takes."""

from __future__ import annotations

from typing import Any

from trm_data.storage.root import Layout
from trm_eval.report.ask import ask
from trm_eval.report.blocks import Picture
from trm_eval.report.canvas import COLOURS, draw, look, short
from trm_eval.report.group import Group

SQL = """\
SELECT
    p.evaluation,
    any_value(e.run) AS run,
    any_value(e.supervision_steps) AS supervision_steps,
    p.halt_step,
    count(*) AS puzzles,
    count_if(p.exact) AS exact_count
FROM predictions AS p JOIN evals AS e ON e.evaluation = p.evaluation
WHERE list_contains(?, p.evaluation)
GROUP BY p.evaluation, p.halt_step
ORDER BY p.evaluation, p.halt_step NULLS LAST"""

TICKS = 8


def halting_pictures(layout: Layout, group: Group, problems: list[str]) -> list[Picture]:
    """The figure of a group, where a test has more than one supervision step."""
    asked = ask(layout, "steps at which puzzles would halt (NULL: never)", SQL, [group.evaluations], problems)
    most = max((row["supervision_steps"] for row in asked.rows), default=0)
    if most < 2:
        return []
    runs = {row["run"] for row in asked.rows}
    paint = _bars if len(runs) == 1 else _curves
    drawn = draw(lambda axis: paint(axis, group, most, asked.rows))
    return [
        Picture(
            f"{group.name}-halting",
            drawn,
            "Steps at which the networks would halt",
            f"{group.name}: share of test puzzles by the supervision step at which the network would first halt",
            asked.rows,
            (asked.query,),
        )
    ]


def _counts(rows: list[dict[str, Any]], most: int, column: str) -> list[int]:
    """Puzzles that halt at each step, and last those that never do."""
    found = {row["halt_step"]: row[column] for row in rows}
    return [found.get(step, 0) for step in [*range(1, most + 1), None]]


def _bars(axis: Any, group: Group, most: int, rows: list[dict[str, Any]]) -> None:
    """Of one run, those solved under those failed."""
    every, exact = (_counts(rows, most, column) for column in ("puzzles", "exact_count"))
    failed = [of - right for of, right in zip(every, exact, strict=True)]
    total = max(sum(every), 1)
    places = range(1, most + 2)
    solved_share, failed_share = ([100 * n / total for n in counts] for counts in (exact, failed))
    axis.bar(places, solved_share, color=COLOURS[0], label="solved")
    axis.bar(
        places, failed_share, bottom=solved_share, color=COLOURS[1], hatch="///", edgecolor="white",
        linewidth=0, label="not solved",
    )  # fmt: skip
    _axes(axis, most)


def _curves(axis: Any, group: Group, most: int, rows: list[dict[str, Any]]) -> None:
    """Of several runs, a curve each."""
    for number, (run, name) in enumerate(reversed(group.names().items())):
        own = [row for row in rows if row["run"] == run]
        if not own:
            continue
        counts = _counts(own, most, "puzzles")
        shares = [100 * count / max(sum(counts), 1) for count in counts]
        axis.plot(range(1, most + 1), shares[:-1], label=short(name), **look(number))
        axis.plot([most + 1], shares[-1:], **look(number))
    _axes(axis, most)


def _axes(axis: Any, most: int) -> None:
    every = -(-most // TICKS)
    steps = list(range(1, most + 1, every))
    axis.set_xticks([*steps, most + 1], [*map(str, steps), "never"])
    if steps[-1] == most and most > TICKS:
        axis.set_xticks([*steps[:-1], most + 1], [*map(str, steps[:-1]), "never"])
    axis.axvline(most + 0.5, color="#6b7280", linewidth=0.8, linestyle=":")
    axis.set_ylim(bottom=0)
    axis.set_xlabel("supervision step")
    axis.set_ylabel("test puzzles (%)")
    axis.grid(axis="y")
