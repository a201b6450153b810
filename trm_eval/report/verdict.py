"""Verdicts on the claims of a guide: as expected, not as expected, or cannot be told, with reasons.

The difference of two runs has an interval over the puzzles of the test; that of two experiments with common seeds has
an interval over seeds. Intervals are 95%, and are not corrected for the number of claims.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from trm_eval.errors import StatisticsError
from trm_eval.report.group import Group, Member
from trm_eval.statistics import across_seeds
from trm_train.experiments.claim import Alike, Better, Claim, NoWorse, Reaches

Outcome = Literal["as expected", "not as expected", "cannot be told"]


@dataclass(frozen=True)
class Judged:
    """A claim checked against the numbers.

    Attributes:
        claim: The claim.
        outcome: Whether it holds.
        found: The numbers, or the reason why there are none.
        one_seed: Whether the numbers are from a single seed.
    """

    claim: Claim
    outcome: Outcome
    found: str
    one_seed: bool = False


@dataclass(frozen=True)
class _Known:
    """A difference with its interval (points): over puzzles for one seed, otherwise over seeds."""

    value: float
    low: float
    high: float
    seeds: int

    def __str__(self) -> str:
        over = "puzzles, one seed" if self.seeds == 1 else f"{self.seeds} seeds"
        return f"{self.value:+.1f} points ({self.low:+.1f} to {self.high:+.1f} over {over})"


def judge(group: Group) -> list[Judged]:
    """Judge every claim of a group."""
    return [_judge(claim, group) for claim in group.claims]


def outcome_of(judged: Sequence[Judged]) -> Outcome | Literal["partly as expected"]:
    """Return the verdict over all claims; one failed claim is enough."""
    outcomes = {each.outcome for each in judged}
    if "not as expected" in outcomes:
        return "not as expected"
    if outcomes == {"as expected", "cannot be told"}:
        return "partly as expected"
    return "as expected" if outcomes == {"as expected"} else "cannot be told"


def verdict(judged: Sequence[Judged]) -> str:
    """Return the verdict with the numbers of claims, and a note if it rests on one seed."""
    if not judged:
        return "cannot be told: the guide makes no claim about exact accuracies."
    outcomes = [each.outcome for each in judged]
    hold, wrong, untold = (outcomes.count(each) for each in get_args(Outcome))
    said = f"{outcome_of(judged)}: of {len(judged)} claim{'s' * (len(judged) > 1)} {hold} hold"
    said += f", {wrong} are contradicted" * (wrong > 0) + f", {untold} cannot be told from these runs" * (
        untold > 0
    )
    lucky = any(each.one_seed for each in judged)
    return f"{said}.{' Of one seed: chance in training is not ruled out.' * lucky}"


def in_order(group: Group) -> list[list[Member]]:
    """Return the runs of each experiment, ordered by mean accuracy over seeds, the best first."""
    return sorted(_by_experiment(group).values(), key=lambda members: -_mean(members))


def best_of(group: Group) -> list[list[Member]]:
    """Return the runs of the experiment with the highest accuracy, or of several if they tie."""
    order = in_order(group)
    return [members for members in order if _mean(members) == _mean(order[0])]


def accuracy_of(members: Sequence[Member]) -> str:
    """Return the accuracy of an experiment with its interval: over seeds if there are several, else over puzzles."""
    exact, low, high, over = accuracy_of_all(members)
    return f"{exact:.1f}% ({low:.1f} to {high:.1f}{'' if len(members) == 1 else f' over {over}'})"


def ends_of(group: Group) -> tuple[list[Member], list[Member], str] | None:
    """Return the runs of the smallest and largest value, and their difference; None unless one thing varies."""
    known = {name: members for name, members in _by_experiment(group).items() if members[0].value is not None}
    if len(known) < 2 or len(group.series) > 1:
        return None
    first, last = (find(known.values(), key=lambda members: members[0].value or 0.0) for find in (min, max))
    if first[0].value == last[0].value:
        return None
    return first, last, str(_difference(first, last, group))


def _by_experiment(group: Group) -> dict[str, list[Member]]:
    found: dict[str, list[Member]] = {}
    for member in group.members:
        found.setdefault(member.experiment, []).append(member)
    return found


def _mean(members: Sequence[Member]) -> float:
    return sum(member.exact_accuracy for member in members) / len(members)


def over_seeds(group: Group) -> list[str]:
    """Return what is known about other seeds, a sentence each."""
    by_experiment, labels = _by_experiment(group), group.labels()
    several = {name: members for name, members in by_experiment.items() if len(members) > 1}
    lines = [f"{labels[name]}: {accuracy_of(members)}." for name, members in several.items()]
    single = [labels[name] for name in by_experiment if name not in several]
    if single:
        who = (
            "each experiment has one seed"
            if len(single) == len(by_experiment) > 1
            else f"{', '.join(single)}: one seed"
        )
        lines.append(
            f"{who}: no interval over seeds can be given. Intervals over puzzles do not say how much a run of another "
            "seed would differ; train further seeds (`--seed`)."
        )
    return lines


def _judge(claim: Claim, group: Group) -> Judged:
    members = {
        name: [member for member in group.members if member.experiment == name] for name in claim.names
    }
    untested = [name for name, found in members.items() if not found]
    if untested:
        return Judged(claim, "cannot be told", f"not tested, or not in this report: {', '.join(untested)}")
    if isinstance(claim, Reaches):
        exact, low, high, over = accuracy_of_all(members[claim.name])
        said = f"{exact:.1f}% ({low:.1f} to {high:.1f} over {over})"
        single = len(members[claim.name]) == 1
        if low < claim.percent <= high:
            within = f"{said}: {claim.percent:g}% is within the interval"
            return Judged(claim, "cannot be told", within, single)
        return Judged(claim, "as expected" if low >= claim.percent else "not as expected", said, single)
    a, b = members.values()
    known = _difference(a, b, group)
    if isinstance(known, str):
        return Judged(claim, "cannot be told", known)
    outcome, why = _hold(claim, known, a, b)
    failed = dict.fromkeys(member.experiment for member in (*a, *b) if member.solves_none)
    if failed:
        who = " and ".join(failed)
        why += f"; but {who} solve{'s' * (len(failed) == 1)} no puzzle: this is a failed run, not a lower accuracy"
    return Judged(claim, outcome, f"{known}{why}", known.seeds == 1)


def accuracy_of_all(members: Sequence[Member]) -> tuple[float, float, float, str]:
    """Return accuracy and interval in percent, and what the interval is over: seeds, or puzzles if there is one seed
    or all seeds have the same accuracy, hence no spread."""
    if len({member.exact_accuracy for member in members}) == 1:
        exact = 100 * members[0].exact_accuracy
        low, high = min(m.exact_low for m in members), max(m.exact_high for m in members)
        over = "puzzles" if len(members) == 1 else f"puzzles, the same for {len(members)} seeds"
        return exact, 100 * low, 100 * high, over
    found = across_seeds([100 * member.exact_accuracy for member in members])
    return found.mean, max(0.0, found.low), min(100.0, found.high), f"{found.count} seeds"


def _difference(a: Sequence[Member], b: Sequence[Member], group: Group) -> _Known | str:
    """Return how much more the second solves than the first, or why that is unknown."""
    seeds = sorted({member.seed for member in a} & {member.seed for member in b})
    if not seeds:
        return "they have no seed in common"
    ours, theirs = (next(member for member in members if member.seed == seeds[0]) for members in (a, b))
    if ours.run == theirs.run:
        return f"both are the run {ours.run}"
    if len(seeds) > 1:
        asked = [{m.split_digest for m in (*a, *b) if m.seed == seed} for seed in seeds]
        if any(len(digests) > 1 for digests in asked):
            return "they were not asked the same puzzles"
        of_a, of_b = ({member.seed: member.exact_accuracy for member in members} for members in (a, b))
        try:
            found = across_seeds([100 * (of_b[seed] - of_a[seed]) for seed in seeds])
        except StatisticsError as error:
            return str(error)
        return _Known(found.mean, found.low, found.high, found.count)
    paired = group.paired.get((ours.run, theirs.run))
    if paired is None:
        return "they were not asked the same puzzles, or predictions are missing"
    low, high = paired.interval
    return _Known(100 * paired.difference, 100 * low, 100 * high, 1)


def _hold(
    claim: Better | Alike | NoWorse, known: _Known, a: Sequence[Member], b: Sequence[Member]
) -> tuple[Outcome, str]:
    """Return whether a claim about a difference holds, and what else decided it."""
    if isinstance(claim, Better):
        if known.high < 0:
            return "not as expected", ""
        if known.low <= 0:
            return "cannot be told", ": the interval has 0"
        apart = max(member.exact_high for member in a) < min(member.exact_low for member in b)
        if claim.clearly and not apart:
            return "cannot be told", ": more, but the 95% intervals of the two overlap"
        return "as expected", ", and their 95% intervals do not overlap" if claim.clearly else ""
    if known.low > -claim.within and (isinstance(claim, NoWorse) or known.high < claim.within):
        return "as expected", ""
    if known.high < -claim.within or (isinstance(claim, Alike) and known.low > claim.within):
        return "not as expected", ""
    return "cannot be told", f": the interval reaches beyond {claim.within:g} points"
