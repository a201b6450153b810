"""Report of runs chosen by name: with other options, imported, or of the user's own experiments."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from trm_data.errors import no_such
from trm_data.storage.root import Layout
from trm_eval.errors import EvalError
from trm_eval.report.group import Group, Member
from trm_eval.report.study import MOST_SAID, curves_of, depths_of, rows_of
from trm_train.experiments.guide import Guide
from trm_train.experiments.setting import Setting

GUIDE = Guide(
    question="What came of these runs?",
    varies="the options that each was started with",
    fixed="nothing; their configurations are under the provenance",
    expected="nothing is claimed of runs that are named one by one",
    judge_by="the newest test of all rows at each run's last evaluated step",
)

NAMES_SQL = "SELECT DISTINCT run, experiment, scale, data FROM runs ORDER BY run"

NAMED_SQL = """\
WITH tests AS (
    SELECT
        e.*,
        r.seed,
        r.total_steps AS planned_steps,
        flops_until(e.step, r.total_steps, r.training_flops, r.config) AS training_flops,
        coalesce(
            CASE WHEN r.step <= e.step THEN r.train_seconds END,
            (SELECT max(seconds) FROM train_metrics AS m WHERE m.run = r.run AND m.step <= e.step)
        ) AS train_seconds,
        coalesce(r.differs, '') AS varies,
        regexp_replace(r.run, '-s[0-9]+$', '') AS configuration
    FROM runs AS r
    JOIN evals AS e ON e.run = r.run
    WHERE list_contains(?, r.run) AND e.weights = 'ema' AND e.split = 'test' AND e.row_limit = 0 AND e.as_published
        AND list_contains(string_split(r.dataset, '+'), e.dataset) AND e.count > 0
    QUALIFY row_number() OVER (
        PARTITION BY r.run, e.dataset
        ORDER BY e.step DESC,
            coalesce(e.supervision_steps = CAST(json_extract(r.config, '$.model.halt_max_steps') AS INTEGER), FALSE)
                DESC,
            e.created_at DESC
    ) = 1
)
SELECT
    -- Runs of one experiment with other options, and tests on several datasets, have their own names.
    if(count(DISTINCT configuration) OVER (PARTITION BY experiment) > 1, configuration, experiment)
        || if(count(*) OVER (PARTITION BY run) > 1, ', ' || dataset, '') AS experiment,
    NULL AS alias_of, varies, NULL AS value, run, seed, evaluation, split_digest, count, exact_count, exact_accuracy,
    wilson_low(exact_count, count) AS exact_low, wilson_high(exact_count, count) AS exact_high, cell_accuracy,
    q_halt_accuracy, list_sum(halting_by_depth) / nullif(count, 0) AS halted_share,
    mean_halting_steps(halting_by_depth, supervision_steps, count) AS mean_halting_steps,
    supervision_steps, step AS total_steps, training_flops, train_seconds, optimal_share, planned_steps
FROM tests
ORDER BY experiment, run"""


def runs_named(layout: Layout, patterns: Sequence[str], setting: Setting | None = None) -> list[str]:
    """Return the runs whose name or experiment matches a pattern, including runs that only have results.

    Args:
        layout: The root.
        patterns: Names or globs of runs or experiments.
        setting: Only runs at this scale and data; exact names of runs ignore it.

    Raises:
        EvalError: A pattern matches nothing.
    """
    rows = rows_of(layout, NAMES_SQL, [], [])
    known = list(dict.fromkeys(name for run, experiment, *_ in rows for name in (run, experiment)))
    found: list[str] = []
    for pattern in patterns:
        fitting = [
            run
            for run, experiment, scale, data in rows
            if run == pattern
            or (
                (setting is None or (scale, data) == (setting.scale, setting.data))
                and any(fnmatch.fnmatchcase(name, pattern) for name in (run, experiment))
            )
        ]
        if not fitting:
            raise EvalError(no_such(f"no run or experiment {pattern!r}", pattern, known, "trm-train status"))
        found += fitting
    return list(dict.fromkeys(found))


def gather_runs(layout: Layout, runs: Sequence[str]) -> tuple[list[Group], list[str]]:
    """Return runs as one group, and a line for each thing that could not be read.

    Raises:
        EvalError: None of them has a test of all rows.
    """
    problems: list[str] = []
    members = [Member(*row) for row in rows_of(layout, NAMED_SQL, [list(runs)], problems)]
    tested = {member.run for member in members}
    missing = [run for run in runs if run not in tested]
    if not members:
        said = "; ".join(f"trm-eval run {run}" for run in missing[:MOST_SAID])
        raise EvalError(
            "; ".join([f"no run has a test of all rows with averaged weights: {said}", *problems])
        )
    members.sort(key=lambda member: (member.experiment, member.varies, member.seed))
    depths = depths_of(layout, [member.evaluation for member in members], problems)
    group = Group(
        name="runs",
        guide=GUIDE,
        quantity="",
        log=False,
        members=members,
        missing=[f"{run} (no test of all rows: trm-eval run {run})" for run in missing],
        curves=curves_of(layout, sorted(tested), problems),
        against_baseline=[],
        ends=None,
        depths={member.run: depths[member.run] for member in members if member.run in depths},
    )
    return [group], problems
