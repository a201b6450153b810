"""`trm-train status`: state of the runs of a root, from files of the root only."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from trm_data.command import WIDE_SHOWS, Json, Root, Wide, emit
from trm_data.commands.common import duration
from trm_data.errors import Exit
from trm_data.storage.root import resolve_root
from trm_train.commands.common import validation_of

if TYPE_CHECKING:
    from trm_train.runs.status import RunOverview


@dataclass(frozen=True, kw_only=True)
class Status:
    """List runs with state, progress, speed and accuracy, on a local root or a bucket.

    States: running, done, stopped (on request, with a checkpoint), failed, stalled (no heartbeat for five minutes, or
    its process on this machine is gone), new (no report yet), unreadable. `watch trm-train status` repeats it.

    For example:

      trm-train status
      trm-train status 'exp01*' --root gs://bucket/trm
    """

    runs: Annotated[Positional[tuple[str, ...]], arg(metavar="[RUN ...]", help_behavior_hint="")] = ()
    """Names of runs, experiments or sweeps, or globs; all if none is named."""
    wide: Wide = False
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Print one line for each run."""
        from trm_train.experiments.sweep import read_sweeps
        from trm_train.runs.status import choose_runs, overview

        layout = resolve_root(self.root)
        for line in read_sweeps(layout)[1]:
            print(f"trm-train: left out: {line}", file=sys.stderr)
        found = choose_runs(overview(layout), self.runs)
        said = partial(_print, found, wide=self.wide) if found else f"no runs under {layout.runs.place}"
        emit([_facts(one) for one in found], said, as_json=self.json)
        return Exit.DONE


def _facts(one: RunOverview) -> dict[str, Any]:
    record, status = one.record, one.status
    facts: dict[str, Any] = {"run": one.run, "state": one.condition, "problem": one.problem}
    if record is not None:
        facts |= {"experiment": record.experiment, "scale": record.scale, "data": record.data}
        facts |= {"dataset": one.dataset, "differs": one.differs, "sweeps": one.sweeps, "label": record.label}
    if status is not None:
        facts |= {name: value for name, value in asdict(status).items() if name not in ("state", "reason")}
        facts["seconds_left"] = one.seconds_left if one.condition == "running" else None
    return facts


def _what(one: RunOverview) -> tuple[str, str, str, str]:
    """Return how a run differs from its experiment, its dataset, its place in sweeps, and its label."""
    sweeps = "; ".join(f"{name}: {said}" for name, said in one.sweeps.items())
    return one.differs or "-", one.dataset or "-", sweeps, "" if one.record is None else one.record.label


def _print(runs: Sequence[RunOverview], *, wide: bool) -> None:
    from trm_data.show.render import print_table

    now = datetime.now(UTC)
    rows: list[tuple[object, ...]] = []
    for one in runs:
        status = one.status
        if status is None:
            rows.append((one.run, one.condition, *["-"] * 6, *_what(one)))
            continue
        ago = (now - datetime.fromisoformat(status.heartbeat)).total_seconds()
        rows.append(
            (
                one.run,
                one.condition,
                f"{status.step:,} of {status.total_steps:,}",
                duration(one.seconds_left) if one.condition == "running" else "-",
                validation_of(status.exact_accuracy, status.optimal_share),
                "-" if status.loss is None else f"{status.loss:.4f}",
                f"{status.examples_per_s:,.0f}/s",
                f"{duration(max(ago, 0.0))} ago, {status.host}",
                *_what(one),
            )
        )
    columns = ["run", "state", "step", "left", "validation", "loss", "examples", "heard of"]
    columns += ["differs", "dataset", "sweep", "label"]
    shown = [
        at for at, name in enumerate(columns) if name not in ("sweep", "label") or any(r[at] for r in rows)
    ]
    columns, rows = [columns[at] for at in shown], [tuple(row[at] for at in shown) for row in rows]
    print_table(columns, rows, wide=wide, hint=WIDE_SHOWS)
    for one in runs:
        if one.problem:
            print(f"{one.run}: {one.problem}")
