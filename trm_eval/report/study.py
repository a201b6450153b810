"""Contents of a report: accuracies with intervals, curves and differences, by SQL.

Its runs are those of experiments, or chosen by name: with other options, imported, or of the user's own experiments.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import Any

from trm_data.errors import no_such
from trm_data.storage.root import Layout
from trm_eval.errors import EvalError
from trm_eval.report.ask import ask
from trm_eval.report.group import Comparison, Group, Member, trend_of
from trm_eval.statistics import Paired, holm
from trm_eval.tables.query import query_results
from trm_train.experiments.claim import Claim
from trm_train.experiments.guide import Guide
from trm_train.experiments.registry import Experiment, groups_of, load_experiments
from trm_train.experiments.setting import Setting

MOST_SAID = 5
"""Maximum number of experiments whose missing results an error lists."""
BASELINE = "baseline"
"""Name of the experiment with which the others of a study are compared."""

MEMBERS_SQL = """\
SELECT experiment, alias_of, varies, value, run, seed, evaluation, split_digest, count, exact_count, exact_accuracy,
       exact_low, exact_high, cell_accuracy, q_halt_accuracy, halted_share, mean_halting_steps, supervision_steps,
       total_steps, training_flops,
       coalesce(
           train_seconds,
           (SELECT max(seconds) FROM train_metrics AS m WHERE m.run = study.run AND m.step <= study.total_steps)
       ) AS train_seconds,
       optimal_share, total_steps AS planned_steps, series
FROM study
WHERE scale = ? AND data = ? AND list_contains(?, experiment) AND evaluation IS NOT NULL
ORDER BY experiment, seed"""

CURVES_SQL = """\
SELECT run, step, exact_accuracy
FROM train_metrics
WHERE dataset IS NULL AND split = 'validation' AND count > 0 AND list_contains(?, run)
ORDER BY run, step"""

DEPTH_SQL = """\
SELECT evaluation, run, depth, exact_accuracy, wilson_low(exact_count, count) AS exact_low,
       wilson_high(exact_count, count) AS exact_high, halted_count
FROM depth
WHERE list_contains(?, evaluation)
ORDER BY evaluation, depth"""

FLIPS_SQL = """\
SELECT a.evaluation AS a, b.evaluation AS b, count(*) AS puzzles,
       count_if(a.exact AND NOT b.exact) AS only_a, count_if(b.exact AND NOT a.exact) AS only_b
FROM predictions AS a JOIN predictions AS b USING (row)
WHERE list_contains(?, a.evaluation || ' ' || b.evaluation) AND a.exact IS NOT NULL
GROUP BY a.evaluation, b.evaluation"""


def gather(layout: Layout, items: Sequence[Experiment], setting: Setting) -> tuple[list[Group], list[str]]:
    """Return the results of experiments at one scale and data, by group; groups without results are left out.

    Returns:
        The groups, and a line for each thing that could not be read.

    Args:
        layout: The root.
        items: Experiments.
        setting: Scale and data.
    """
    problems: list[str] = []
    values = [setting.scale, setting.data, [item.name for item in items]]
    members: dict[str, list[Member]] = {}
    for row in ask(layout, "tests", MEMBERS_SQL, values, problems).rows:
        members.setdefault(row["experiment"], []).append(Member(**row))
    if not members:
        raise EvalError(
            "; ".join(
                [
                    f"none of {len(items)} experiments has a test of all rows at {setting}. trm-train batch trains and "
                    "tests them with the options of the study; trm-eval run RUN tests a trained run, and "
                    "trm-eval sql @study lists the tests at every scale and data",
                    *problems,
                ]
            )
        )
    runs = sorted({member.run for found in members.values() for member in found})
    curves = _by_run(layout, "validations", CURVES_SQL, runs, problems)
    tests = sorted({member.evaluation for found in members.values() for member in found})
    depths = _by_run(layout, "depths", DEPTH_SQL, tests, problems)
    groups = [
        made
        for name, of_group in groups_of(items).items()
        if (made := _group(layout, name, of_group, members, curves, depths, problems)) is not None
    ]
    return groups, problems


def _group(
    layout: Layout,
    name: str,
    items: Sequence[Experiment],
    members: dict[str, list[Member]],
    curves: dict[str, list[dict[str, Any]]],
    depths: dict[str, list[dict[str, Any]]],
    problems: list[str],
) -> Group | None:
    found = [member for item in items for member in members.get(item.name, [])]
    guide = items[0].guide
    if not found or guide is None:
        return None
    axis, quantity = "", items[0].quantity
    if quantity is not None:
        repeated = quantity.name.endswith(quantity.unit)
        axis = quantity.name if repeated else f"{quantity.name} ({quantity.unit})"
    first = {member.series: member.experiment for member in sorted(found, key=lambda m: m.experiment)[::-1]}
    found.sort(key=lambda m: (first[m.series], m.value or 0.0, m.experiment, m.seed))
    baselines = {member.seed: member for member in found if BASELINE in (member.alias_of, member.experiment)}
    own = {member.run for member in baselines.values()}
    against = [
        (baselines[member.seed], member)
        for member in found
        if member.run not in own and member.seed in baselines
    ]
    one_curve = quantity is not None and len({member.series for member in found}) == 1
    guides = dict.fromkeys(item.guide for item in items if item.guide is not None)
    claims = tuple(claim for each in guides for claim in each.claims)
    pairs = [*against, *(_ends(found) if one_curve else []), *_claimed(claims, found)]
    paired = _pair(layout, pairs, problems)
    compared = [(a, b, paired[a.run, b.run]) for a, b in against if (a.run, b.run) in paired]
    different = {(a.run, b.run): of_both for a, b, of_both in compared}
    p_values = dict(zip(different, holm([each.p_value for each in different.values()]), strict=True))
    measured = {member.run: member for member in found if member.value is not None}.values()
    return Group(
        name=name,
        guide=guide,
        quantity=axis,
        log=quantity is not None and quantity.log,
        members=found,
        missing=[item.name for item in items if item.name not in members],
        curves={member.run: curves[member.run] for member in found if member.run in curves},
        against_baseline=[Comparison(*each, p_values[each[0].run, each[1].run]) for each in compared],
        trend=trend_of([m.value or 0.0 for m in measured], [m.exact_accuracy for m in measured])
        if one_curve
        else None,
        depths={member.run: depths[member.run] for member in found if member.run in depths},
        claims=claims,
        paired=paired,
    )


def _claimed(claims: Sequence[Claim], members: Sequence[Member]) -> list[tuple[Member, Member]]:
    return [
        (a, b)
        for claim in claims
        if len(claim.names) == 2
        for a in members
        for b in members
        if (a.experiment, b.experiment) == claim.names and a.seed == b.seed
    ]


def _ends(members: Sequence[Member]) -> list[tuple[Member, Member]]:
    """Return the runs with the smallest and the largest value, for each seed that both have."""
    values = [member.value for member in members if member.value is not None]
    if not values or min(values) == max(values):
        return []
    first = {member.seed: member for member in members if member.value == min(values)}
    last = {member.seed: member for member in members if member.value == max(values)}
    return [(first[seed], last[seed]) for seed in sorted(first.keys() & last.keys())]


def _by_run(
    layout: Layout, says: str, sql: str, values: list[str], problems: list[str]
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of a query over a list of runs or evaluations, by run."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in ask(layout, says, sql, [values], problems).rows:
        found.setdefault(row["run"], []).append(row)
    return found


def _pair(
    layout: Layout, pairs: Sequence[tuple[Member, Member]], problems: list[str]
) -> dict[tuple[str, str], Paired]:
    """Compare runs on the same puzzles, in both directions; leave out other pairs and those with missing rows."""
    wanted: dict[frozenset[str], tuple[Member, Member]] = {}
    for a, b in pairs:
        if a.split_digest == b.split_digest and a.run != b.run:
            wanted.setdefault(frozenset((a.run, b.run)), (a, b))
    keys = {f"{a.evaluation} {b.evaluation}": (a, b) for a, b in wanted.values()}
    rows = ask(layout, "flips", FLIPS_SQL, [list(keys)], problems).rows if keys else []
    flips = {f"{row['a']} {row['b']}": Paired(row["puzzles"], row["only_a"], row["only_b"]) for row in rows}
    found: dict[tuple[str, str], Paired] = {}
    for key, (a, b) in keys.items():
        paired = flips.get(key)
        if paired is not None and paired.count == a.count == b.count:
            found[a.run, b.run], found[b.run, a.run] = paired, paired.turned()
    return found


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
    rows = query_results(layout, NAMES_SQL).rows
    known = {*load_experiments(), *(name for run, experiment, *_ in rows for name in (run, experiment))}
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
    members = [Member(**row) for row in ask(layout, "tests", NAMED_SQL, [list(runs)], problems).rows]
    tested = {member.run for member in members}
    missing = [run for run in runs if run not in tested]
    if not members:
        said = "; ".join(f"trm-eval run {run}" for run in missing[:MOST_SAID])
        raise EvalError(
            "; ".join([f"no run has a test of all rows with averaged weights: {said}", *problems])
        )
    members.sort(key=lambda member: (member.experiment, member.varies, member.seed))
    tests = [member.evaluation for member in members]
    group = Group(
        name="runs",
        guide=GUIDE,
        quantity="",
        log=False,
        members=members,
        missing=[f"{run} (no test of all rows: trm-eval run {run})" for run in missing],
        curves=_by_run(layout, "validations", CURVES_SQL, sorted(tested), problems),
        against_baseline=[],
        depths=_by_run(layout, "depths", DEPTH_SQL, tests, problems),
    )
    return [group], problems
