"""Claims of guides checked against made-up numbers: as expected, not as expected, and cannot be told."""

from __future__ import annotations

import dataclasses
import re

import pytest
from scipy import stats

from trm_eval.report.group import Group, Member
from trm_eval.report.page import findings
from trm_eval.report.verdict import (
    accuracy_of,
    ends_of,
    in_order,
    judge,
    outcome_of,
    over_seeds,
    verdict,
)
from trm_eval.statistics import Paired
from trm_train.experiments.claim import Alike, Better, Claim, NoWorse, Reaches
from trm_train.experiments.guide import Guide

GUIDE = Guide(question="?", varies="a", fixed="b", expected="c", judge_by="d")


def a_member(experiment: str, exact: int, seed: int = 0, count: int = 1_000) -> Member:
    interval = stats.binomtest(exact, count).proportion_ci(method="wilson")
    low, high = interval.low, interval.high
    return Member(
        experiment, None, experiment, None, f"{experiment}-s{seed}", seed, f"e-{experiment}-{seed}", "d",
        count, exact, exact / count, low, high, 0.9, 0.5, 0.2, 3.4, 4, 12, 1e9, 1.0,
    )  # fmt: skip


def a_group(claim: Claim, *members: Member, flips: tuple[int, int] | None = None) -> Group:
    """Return a group with one claim; the first two runs differ by these flips."""
    paired: dict[tuple[str, str], Paired] = {}
    if flips is not None:
        paired[members[0].run, members[1].run] = Paired(members[0].count, *flips)
    return Group(
        "g", GUIDE, "", False, list(members), [], {}, [], claims=(claim,), paired=paired
    )  # fmt: skip


A, B = a_member("a", 500), a_member("b", 600)


@pytest.mark.parametrize(
    ("claim", "flips", "outcome", "said"),
    [
        (Better("b", "a"), (20, 120), "as expected", "+10.0 points ("),
        (Better("b", "a"), (120, 20), "not as expected", "-10.0 points ("),
        (Better("b", "a"), (20, 25), "cannot be told", "the interval has 0"),
        (Better("b", "a", clearly=True), (20, 120), "as expected", "intervals do not overlap"),
        (Alike("b", "a"), (5, 5), "as expected", "+0.0 points ("),
        (Alike("b", "a"), (20, 120), "not as expected", "+10.0 points ("),
        (Alike("b", "a"), (90, 110), "cannot be told", "reaches beyond 2 points"),
        (NoWorse("b", "a"), (20, 120), "as expected", "+10.0 points ("),
        (NoWorse("b", "a"), (120, 20), "not as expected", "-10.0 points ("),
        (NoWorse("b", "a"), (110, 90), "cannot be told", "reaches beyond 2 points"),
    ],
)
def test_a_claim_on_two_runs(claim: Claim, flips: tuple[int, int], outcome: str, said: str) -> None:
    (judged,) = judge(a_group(claim, A, B, flips=flips))
    assert judged.outcome == outcome
    assert said in judged.found
    assert "over puzzles, one seed" in judged.found


def test_a_run_that_solves_nothing_is_no_plain_confirmation() -> None:
    nothing = a_member("a", 0)
    judged = judge(a_group(Better("b", "a"), nothing, B, flips=(0, 600)))
    assert judged[0].outcome == "as expected"
    assert "but a solves no puzzle: this is a failed run" in judged[0].found


def test_clearly_more_is_more_than_intervals_that_overlap() -> None:
    a, b = a_member("a", 500), a_member("b", 530)
    (judged,) = judge(a_group(Better("b", "a", clearly=True), a, b, flips=(10, 40)))
    assert judged.outcome == "cannot be told"
    assert "more, but the 95% intervals of the two overlap" in judged.found
    assert judge(a_group(Better("b", "a"), a, b, flips=(10, 40)))[0].outcome == "as expected"


@pytest.mark.parametrize(
    ("percent", "outcome"), [(45.0, "as expected"), (55.0, "not as expected"), (51.0, "cannot be told")]
)
def test_an_accuracy_is_reached_where_its_whole_interval_is(percent: float, outcome: str) -> None:
    (judged,) = judge(a_group(Reaches("a", percent), A))
    assert judged.outcome == outcome
    assert judged.found.startswith("50.0% (46.9 to 53.1 over puzzles)")


def test_what_is_not_there_decides_nothing() -> None:
    for group, why in (
        (a_group(Better("c", "a"), A, B), "not tested, or not in this report: c"),
        (a_group(Better("b", "a"), A, B), "not asked the same puzzles, or predictions are missing"),
        (a_group(Better("b", "a"), A, a_member("b", 600, seed=1)), "no seed in common"),
    ):
        (judged,) = judge(group)
        assert (judged.outcome, why in judged.found) == ("cannot be told", True), judged.found


def test_several_seeds_have_an_interval_of_their_own() -> None:
    ours = [a_member("a", exact, seed) for seed, exact in enumerate((500, 510, 490))]
    theirs = [a_member("b", exact, seed) for seed, exact in enumerate((600, 615, 594))]
    (judged,) = judge(a_group(Better("b", "a"), *ours, *theirs))
    assert judged.outcome == "as expected"
    assert "over 3 seeds" in judged.found
    lines = over_seeds(a_group(Better("b", "a"), *ours, B))
    assert lines[0] == "a: 50.0% (47.5 to 52.5 over 3 seeds)."
    assert lines[1].startswith("b: one seed: no interval over seeds can be given")


def test_seeds_that_are_all_the_same_reach_what_their_puzzles_say() -> None:
    members = [a_member("a", 1000, seed) for seed in range(3)]
    (judged,) = judge(a_group(Reaches("a", 95.0), *members))
    assert judged.outcome == "as expected"
    assert judged.found == "100.0% (99.6 to 100.0 over puzzles, the same for 3 seeds)"


def test_seeds_on_other_puzzles_are_not_compared() -> None:
    ours = [a_member("a", exact, seed) for seed, exact in enumerate((500, 510, 490))]
    theirs = [a_member("b", exact, seed) for seed, exact in enumerate((600, 615, 594))]
    theirs[1] = dataclasses.replace(theirs[1], split_digest="other")
    (judged,) = judge(a_group(Better("b", "a"), *ours, *theirs))
    assert (judged.outcome, judged.found) == ("cannot be told", "they were not asked the same puzzles")


def test_experiments_of_several_seeds_stand_by_their_means() -> None:
    """The best run belongs to the experiment with the lower mean: a lucky run does not lead the report."""
    a = [dataclasses.replace(a_member("a", n, seed), value=1.0) for seed, n in enumerate((500, 900, 460))]
    b = [dataclasses.replace(a_member("b", n, seed), value=2.0) for seed, n in enumerate((700, 710, 690))]
    group = a_group(Better("b", "a"), *a, *b)
    assert [members[0].experiment for members in in_order(group)] == ["b", "a"]
    assert accuracy_of(b) == "70.0% (67.5 to 72.5 over 3 seeds)"
    ends = ends_of(group)
    assert ends is not None
    assert ends[2].startswith("+8.0 points (")
    assert ends[2].endswith("over 3 seeds)")
    lines = findings(group)
    assert lines[0] == "best is b: 70.0% (67.5 to 72.5 over 3 seeds)."
    assert lines[1].startswith("a: 62.0% (")
    assert ends_of(a_group(Better("b", "a"), A, B)) is None


def test_one_claim_that_does_not_hold_decides() -> None:
    def of(*exact: tuple[int, int]) -> str:
        judged = [judge(a_group(Better("b", "a"), A, B, flips=flips))[0] for flips in exact]
        assert verdict(judged).startswith(outcome_of(judged))
        return verdict(judged)

    good, bad, open_ = (20, 120), (120, 20), (20, 25)
    luck = " Of one seed: chance in training is not ruled out."
    assert of(good) == f"as expected: of 1 claim 1 hold.{luck}"
    assert of(bad) == f"not as expected: of 1 claim 0 hold, 1 are contradicted.{luck}"
    assert of(good, good) == f"as expected: of 2 claims 2 hold.{luck}"
    untold = f"1 cannot be told from these runs.{luck}"
    assert of(good, bad, open_) == f"not as expected: of 3 claims 1 hold, 1 are contradicted, {untold}"
    assert of(good, open_) == f"partly as expected: of 2 claims 1 hold, {untold}"
    assert verdict([]).startswith("cannot be told: the guide makes no claim")
    seeds = [
        a_member(name, 500 + 100 * (name == "b") + 7 * seed * seed, seed)
        for name in "ab"
        for seed in range(3)
    ]
    seeds[0] = a_member("a", 490)
    assert verdict(judge(a_group(Better("b", "a"), *seeds))) == "as expected: of 1 claim 1 hold."


def test_an_interval_over_seeds_ends_where_accuracies_do() -> None:
    members = [a_member("a", exact, seed) for seed, exact in enumerate((913, 928, 990))]
    (line,) = over_seeds(a_group(Reaches("a", 90), *members))
    assert re.search(r"94\.4% \(\d+\.\d to 100\.0 over 3 seeds", line), line
