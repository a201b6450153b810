"""Generator of the pages of docs/experiments from the registry: `python tools/pages.py FOLDER`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from trm_train.cost import Cost, checkpoint_bytes, cost_of, parameters_of
from trm_train.experiments.dataset import PlannedDataset, plan_datasets
from trm_train.experiments.registry import Experiment, experiments_at, groups_of, load_experiments
from trm_train.experiments.setting import SETTINGS, USUAL_DATA, Setting

STUDY = ("exp", "contrib01", "contrib02")
"""Prefixes of the groups of the 67 experiments."""

EGRESS_USD = 0.12
"""Price of egress from a bucket to the internet (USD/GB). Source: Google's price list, first terabyte of a month."""

HEAD = "<!-- Written by `make pages` from the registry; a test fails where it is stale. -->\n"

INTRODUCTION = """\
The 67 experiments of the study are the groups exp01 to exp10, contrib01 and contrib02: each varies one thing of the
baseline. Beside them stand rematerialised recursion (contrib03), data scaling on other puzzles, the published recipes
and the quickstarts. `trm-train list`, `describe NAME` and `batch PATTERN ... --dry-run` say the same on the command
line; `--scale full|laptop|tiny` and `--data published|generated-extreme|generated` choose the size and the puzzles.
At one scale and data all experiments on Sudoku share one test split. Some experiments share a run (the
column `run of` of each page): it is trained once, and its results are found under each name.

[The study in miniature](miniature.md) is what came of the 67 at `--scale tiny --data generated`, of one seed. Its
runs shared two cores with other work, and were stopped and resumed, so their seconds do not measure speed. On 2
cores of an AMD EPYC with nothing else to do, two runs at a time (`--jobs 2`), 40 steps and the whole test of each of
the 54 runs took 30 minutes; at the speed of their last 20 steps all of it takes 3.6 hours, of which 3.3 are training
(computed from that, not run). Guides speak of the full scale: at tiny 500 puzzles with 100 augmentations stand for
1,000 with 1,000."""

ARITHMETIC = """\
Operations are counted from the shapes of the configurations (matrix products, two operations a multiplication and
addition; they agree with the 42.7 GFLOP an example of the published recipe). [Readiness](../readiness.md) has hours of
the full study on a v4-64, as its compiler estimates them."""


def pages() -> dict[str, str]:
    """Return all pages by file name."""
    groups = groups_of(load_experiments().values())
    found = {f"{group}.md": _group_page(group, items) for group, items in groups.items()}
    return {"README.md": _overview(groups), **found}


def _group_page(group: str, items: Sequence[Experiment]) -> str:
    lines = [HEAD, f"# {group}", ""]
    guides = list(dict.fromkeys(item.guide for item in items))
    for guide in guides:
        if guide is None:
            continue
        named = [item.name for item in items if item.guide is guide]
        lines += [f"**{guide.question}**", ""]
        if len(guides) > 1:
            lines += [f"- Name: {', '.join(named)}"]
        fields = ("varies", "fixed", "expected", "judge_by", "metrics", "cost")
        lines += [
            f"- {field.replace('_', ' ').capitalize()}: {getattr(guide, field)}"
            for field in fields
            if getattr(guide, field)
        ]
        lines.append("")
    scales = [setting for setting in SETTINGS if setting.data == USUAL_DATA[setting.scale]]
    columns = [setting for setting in scales if any(setting in item.settings for item in items)]
    if not columns:
        columns = [items[0].setting()]
    for setting in columns:
        lines += _table(setting, [item.at(setting) for item in items if setting in item.settings])
    others = [item.at(None) for item in items if not set(columns) & set(item.settings)]
    for item in others:
        lines += _table(item.setting(), [item])
    first = items[0].name
    lines += [
        "```",
        f"trm-train describe {first}",
        f"trm-train batch {group} --dry-run",
        f"trm-train batch {group}" + (" --scale tiny" if SETTINGS[-1] in items[0].settings else ""),
        "```",
    ]
    return "\n".join(lines) + "\n"


def _table(setting: Setting, items: Sequence[Experiment]) -> list[str]:
    lines = [
        f"`{setting}`",
        "",
        "| name | varies | run of | dataset | steps x slots | parameters | training FLOP |",
        "|---|---|---|---|---|---|---|",
    ]
    for item in items:
        config = item.make()
        planned, cost = _planned(item)
        lines.append(
            f"| {item.name} | {item.own(config) or '-'} | {item.alias_of() or item.name} "
            f"| {item.dataset()} | {config.total_steps:,} x {config.data.global_batch_size:,} "
            f"| {parameters_of(config.model, planned.input_spec):,} | {cost.training_flops:.2e} |"
        )
    return [*lines, ""]


def _planned(item: Experiment) -> tuple[PlannedDataset, Cost]:
    planned = plan_datasets(item.datasets())
    assert planned is not None, item.dataset()
    cost = cost_of(item.make(), planned.input_spec)
    assert cost is not None, item.name
    return planned, cost


def _overview(groups: dict[str, list[Experiment]]) -> str:
    lines = [
        HEAD,
        "# Experiments",
        "",
        INTRODUCTION,
        "",
        "| group | question | experiments | runs of its own (at its usual scale) |",
        "|---|---|---|---|",
    ]
    for group, items in groups.items():
        own = sum(item.alias_of() is None for item in items)
        question = dict.fromkeys(item.summary for item in items)
        lines.append(f"| [{group}]({group}.md) | {'<br>'.join(question)} | {len(items)} | {own} |")
    return "\n".join([*lines, "", *_arithmetic()]) + "\n"


def _arithmetic() -> list[str]:
    """Return the cost section: the whole study, with each run counted once."""
    lines = [
        "## What the study costs",
        "",
        ARITHMETIC,
        "",
    ]
    for setting in (setting for setting in SETTINGS if setting.data == USUAL_DATA[setting.scale]):
        lines += _arithmetic_at(setting)
    return lines


def _arithmetic_at(setting: Setting) -> list[str]:
    named = {
        name: item.at(setting)
        for name, item in experiments_at(setting).items()
        if item.group.startswith(STUDY)
    }
    every = [*named.values(), experiments_at(setting)["baseline"].at(setting)]
    own = [item for item in every if item.alias_of() is None]
    training = testing = storage = 0.0
    for item in own:
        config = item.make()
        planned, cost = _planned(item)
        training += cost.training_flops
        testing += cost.testing_flops(config, planned.validation_rows, planned.test_rows) or 0.0
        weights, resume = checkpoint_bytes(config, planned.input_spec)
        saves = -(-config.total_steps // config.execution.checkpoint_every)
        storage += weights * saves + resume
    return [
        f"`{setting}`: {len(named)} experiments, {len(own)} runs with the baseline, one seed:",
        "",
        f"- training {training:.2e} FLOP, tests and validations {testing:.2e} FLOP",
        f"- checkpoints {storage / 1e9:,.1f} GB (raw and averaged weights of every save, and a run's state to resume "
        f"from); as much leaves the bucket if all of it is copied home, {storage / 1e9 * EGRESS_USD:,.2f} USD at an "
        f"assumed {EGRESS_USD} USD/GB (Google's list price to the internet; within a region nothing)",
        "",
    ]


def main() -> None:
    """Write the pages to a folder."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    main()
