"""A report of experiments as blocks: questions, claims, results, and their SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from trm_data.storage.root import Layout
from trm_eval.report.ask import filled
from trm_eval.report.blocks import Block, Bullets, Heading, Page, Picture, Query, Table, Text
from trm_eval.report.breakdown import (
    rating_pictures,
    scaling_pictures,
)
from trm_eval.report.figures import (
    accuracy_figure,
    curves_figure,
    depth_figure,
    pareto_blocks,
)
from trm_eval.report.group import Comparison, Group, Member
from trm_eval.report.sections import provenance_blocks, puzzle_blocks
from trm_eval.report.study import CURVES_SQL, DEPTH_SQL, FLIPS_SQL, MEMBERS_SQL, NAMED_SQL
from trm_eval.report.verdict import (
    accuracy_of,
    best_of,
    ends_of,
    in_order,
    judge,
    outcome_of,
    over_seeds,
    verdict,
)
from trm_train.experiments.setting import OWN, Setting

SURE = 0.05
"""Significance level: differences with a smaller p-value are reported."""


def study_page(
    groups: Sequence[Group],
    setting: Setting | None,
    command: str,
    problems: Sequence[str] = (),
    further: Mapping[str, Sequence[Block]] | None = None,
) -> Page:
    """Return the report on groups of experiments.

    Args:
        groups: From `gather`.
        setting: Scale and data; None for runs chosen by name.
        command: Command that writes this report.
        problems: Lines on what is missing from the report.
        further: Blocks for the end of each group, by its name; the empty name is for the end of the report.
    """
    further = further or {}
    missing = [name for group in groups for name in group.missing]
    blocks: list[Block] = [
        _about(groups, setting),
        Text(f"Written by `{command}`; provenance.csv has the versions of the packages that trained."),
    ]
    if missing:
        blocks.append(Text(f"Not tested yet: {', '.join(missing)}."))
    if problems:
        blocks.append(Bullets([f"Left out: {problem}" for problem in problems]))
    blocks += [Heading("At a glance"), _overview(groups)]
    for group in groups:
        blocks += [*_group_blocks(group), *_figures(group, setting), *further.get(group.name, ())]
    blocks += further.get("", ())
    blocks += [
        Heading("The SQL behind it"),
        Query("tests with their intervals, for a list of runs", NAMED_SQL)
        if setting is None
        else Query("tests with their intervals, for a scale, data and a list of experiments", MEMBERS_SQL),
        Query("validations of a list of runs", CURVES_SQL),
        Query("accuracy after every supervision step of a list of evaluations", DEPTH_SQL),
        Query("puzzles that only one of two evaluations solves", FLIPS_SQL),
    ]
    if setting is None:
        return Page("Runs", blocks)
    of = "The study" if len(groups) > 1 else groups[0].name
    return Page(of if setting == OWN else f"{of} at {setting}", blocks)


def further_blocks(
    layout: Layout, groups: Sequence[Group], setting: Setting | None, problems: list[str]
) -> dict[str, list[Block]]:
    """Return the figures of each group by its name; the empty name has the sections of the whole report.

    Args:
        layout: The root.
        groups: From `gather`.
        setting: Scale and data; None for runs chosen by name, which get no Pareto front.
        problems: List of what is missing from the report, extended here.
    """
    found: dict[str, list[Block]] = {
        group.name: [
            *rating_pictures(layout, group, problems),
            *scaling_pictures(layout, group, problems),
        ]
        for group in groups
    }
    found[""] = [
        *(pareto_blocks(layout, groups, setting, problems) if setting is not None else []),
        *puzzle_blocks(layout, groups),
        *provenance_blocks(layout, groups, problems),
    ]
    return found


def _about(groups: Sequence[Group], setting: Setting | None) -> Text:
    runs = {member.run: member for group in groups for member in group.members}
    tested = sorted({member.count for member in runs.values()})
    smaller = (
        ""
        if setting is None or setting.scale in ("full", "own")
        else "; most guides were written for the scale full"
    )
    ends = {member.steps for member in runs.values()}
    step = "its last step" if not any("of" in end for end in ends) else f"step {' or '.join(sorted(ends))}"
    return Text(
        f"{len(runs)} run{'s' * (len(runs) != 1)}, each tested with its averaged weights at {step} on "
        f"{' or '.join(f'{count:,}' for count in tested)} held-out puzzles. Intervals are 95% (Wilson); "
        "differences are between the same puzzles, with p-values of McNemar's exact test, corrected within a group "
        "(Holm); their intervals (Tango) are not corrected. "
        "Curves are log-linear or a power law with a ceiling, chosen by AICc; their 95% bands come from fits to "
        f"resampled runs. Verdicts compare the claims of the guides with these runs{smaller}."
    )


def _overview(groups: Sequence[Group]) -> Table:
    rows: list[dict[str, str]] = []
    data: list[dict[str, Any]] = []
    for group in groups:
        best, comparable = best_of(group), _one_test(group)
        ends = "" if (found := ends_of(group)) is None else found[2]
        facts = {
            "group": group.name,
            "question": group.guide.question,
            "verdict": outcome_of(judge(group)),
        }
        said = _best(best) if comparable else DIFFERENT_TESTS
        rows.append({**facts, "best": said, "largest against smallest": ends})
        first = best[0]
        mean = sum(member.exact_accuracy for member in first) / len(first) if comparable else None
        name = first[0].experiment if len(best) == 1 and comparable else ""
        data.append({**facts, "best": name, "exact_accuracy": mean, "ends": ends})
    return Table("overview.csv", rows, data)


def _group_blocks(group: Group) -> list[Block]:
    judged = judge(group)
    return [
        Heading(f"{group.name}: {group.guide.question}"),
        Bullets(
            [
                f"Varies: {group.guide.varies}.",
                f"Expected: {group.guide.expected}.",
                f"To be judged by: {group.guide.judge_by}.",
                f"Verdict: {verdict(judged)}",
                *(f"Claimed: {each.claim}. {each.outcome.capitalize()}: {each.found}." for each in judged),
                *(f"Found: {line}" for line in findings(group)),
                *(f"Over seeds: {line}" for line in over_seeds(group)),
            ]
        ),
        _members_table(group),
    ]


def _members_table(group: Group) -> Table:
    rows = [
        {
            "experiment": member.experiment,
            "varies": member.varies,
            "seed": str(member.seed),
            "exact %": f"{100 * member.exact_accuracy:.1f}",
            "95%": f"{100 * member.exact_low:.1f} to {100 * member.exact_high:.1f}",
            "cells %": f"{100 * member.cell_accuracy:.2f}",
            # Of unsolved puzzles only, it says no more than how few halt.
            "halting right %": "-" if member.solves_none else f"{100 * member.q_halt_accuracy:.1f}",
            "as good as the label %": _or_dash(member.optimal_share, lambda share: f"{100 * share:.1f}"),
            "halts %": _or_dash(
                member.halted_share, lambda share: f"{100 * share:.1f}" if share else "never"
            ),
            "halting steps": _or_dash(
                member.mean_halting_steps,
                lambda steps, most=member.supervision_steps: f"{steps:.2f} of {most}",
            ),
            "steps": member.steps,
            "FLOP": _or_dash(member.training_flops, lambda flops: f"{flops:.2e}"),
            "train s": _or_dash(member.train_seconds, lambda seconds: f"{seconds:,.0f}"),
            "run": member.run,
        }
        for member in group.members
    ]
    if all(member.optimal_share is None for member in group.members):
        for row in rows:
            del row["as good as the label %"]
    return Table(f"{group.name}.csv", rows, [asdict(member) for member in group.members])


def _or_dash(value: float | None, said: Callable[[float], str]) -> str:
    return "-" if value is None else said(value)


def _figures(group: Group, setting: Setting | None) -> list[Block]:
    """Return the figures of tests, training, and accuracy by step, where known."""
    named = sorted({member.experiment for member in group.members})
    runs = sorted({member.run for member in group.members})
    tests = Query(
        "tests with their intervals",
        filled(NAMED_SQL, [runs])
        if setting is None
        else filled(MEMBERS_SQL, [setting.scale, setting.data, named]),
    )
    fitted = group.trend is not None and group.trend.fit is not None
    bands = (
        "; lines join means over seeds, and bands are 95% t intervals of these means (of one seed, over puzzles)"
        if group.quantity and not fitted
        else ""
    )
    pictures: list[Block] = [
        Picture(
            group.name,
            accuracy_figure(group),
            "Accuracy on the test split",
            f"{group.name}: exact accuracy on the test split with 95% intervals{bands}",
            queries=(tests,),
        )
    ]
    if group.curves:
        pictures.append(
            Picture(
                f"{group.name}-curves",
                curves_figure(group),
                "Validations over training",
                f"{group.name}: exact accuracy on the validation split over the steps of training",
                [row for rows in group.curves.values() for row in rows],
                (Query("validations", filled(CURVES_SQL, [list(group.curves)])),),
            )
        )
    if any(len(rows) > 1 for rows in group.depths.values()):
        pictures.append(
            Picture(
                f"{group.name}-depth",
                depth_figure(group),
                "Accuracy after each supervision step",
                f"{group.name}: exact accuracy after every supervision step of the test, with 95% intervals",
                [row for rows in group.depths.values() for row in rows],
                (Query("accuracy by step", filled(DEPTH_SQL, [group.evaluations])),),
            )
        )
    return pictures


DIFFERENT_TESTS = "the runs are tested on different puzzles"


def findings(group: Group) -> list[str]:
    """Return the findings from the numbers of a group, a sentence each."""
    order = in_order(group)
    best = best_of(group)
    comparable = _one_test(group)
    lines = [f"best is {_best(best)}." if len(best) == 1 < len(order) else f"{_best(best)}."]
    if not comparable:
        lines = [f"{DIFFERENT_TESTS}: no best and no order are named."]
    if (found := ends_of(group)) is not None:
        first, last, said = found
        lines.append(
            f"{_name_of(first)}: {accuracy_of(first)}; {_name_of(last)}: {accuracy_of(last)}; {said}."
        )
    if comparable and len(order) > 2 and len(best) < len(order):
        lines.append(f"in order of accuracy: {', '.join(map(_name_of, order))}.")
    if failed := [_name(member) for member in group.members if member.solves_none]:
        lines.append(
            f"{_and(failed)} solve{'s' * (len(failed) == 1)} no puzzle of the test: training failed or was too short; "
            "a comparison with it does not show what it could reach."
        )
    if group.trend is not None:
        lines.append(group.trend.says(group.quantity))
    sure = [each for each in group.against_baseline if each.p_value < SURE]
    unsure = len(group.against_baseline) - len(sure)
    lines += [f"{_name(each.b)} differs from the baseline: {_points(each)}." for each in sure]
    if unsure:
        same = "no difference from the baseline can be told for" if not sure else "none can be told for"
        rest = [_name(each.b) for each in group.against_baseline if each.p_value >= SURE]
        lines.append(f"{same} {', '.join(rest)}.")
    return lines


def _one_test(group: Group) -> bool:
    """Return whether all runs are tested on the same puzzles; a mixture and its controls are not."""
    return len({member.split_digest for member in group.members}) == 1


def _best(best: Sequence[Sequence[Member]]) -> str:
    """Return the experiment with the highest accuracy, or those that tie, as text."""
    names = _and([_name_of(members) for members in best])
    return f"{names}{' tie' if len(best) > 1 else ''}: {accuracy_of(best[0])}"


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _name_of(members: Sequence[Member]) -> str:
    """Return the name of an experiment, with the seed if its only run does not have the first seed."""
    return _name(members[0]) if len(members) == 1 else members[0].varies or members[0].experiment


def _name(member: Member) -> str:
    seed = f" (seed {member.seed})" if member.seed else ""
    return f"{member.varies or member.experiment}{seed}"


def _points(compared: Comparison) -> str:
    low, high = compared.paired.interval
    said = f"p {compared.p_value:.2g}" if compared.p_value >= 1e-4 else "p < 0.0001"
    return f"{100 * compared.paired.difference:+.1f} points ({100 * low:+.1f} to {100 * high:+.1f}, {said})"
