"""Accuracy by rating: each test's number of puzzles in a bucket is its own."""

from __future__ import annotations

from matplotlib.figure import Figure

from trm_eval.report.breakdown import paint_ratings


def rows(**puzzles: int) -> list[dict[str, object]]:
    return [
        {
            "rating_bucket": bucket,
            "lowest_rating": float(number),
            "puzzles": count,
            "exact_accuracy": 0.5,
            "exact_low": 0.4,
            "exact_high": 0.6,
        }
        for number, (bucket, count) in enumerate(puzzles.items())
    ]


def labels(*tests: tuple[str, list[dict[str, object]]]) -> list[str]:
    axis = Figure().subplots()
    paint_ratings(axis, tests)
    return [label.get_text() for label in axis.get_xticklabels()]


def test_tests_of_the_same_puzzles_have_one_number() -> None:
    assert labels(("a", rows(easy=1_000, hard=5)), ("b", rows(easy=1_000, hard=5))) == [
        "easy\n(1,000)",
        "hard\n(5)",
    ]


def test_tests_of_other_puzzles_have_their_own_numbers() -> None:
    found = labels(("a", rows(easy=1_000, hard=5)), ("none", []), ("b", rows(easy=20)))
    assert found == ["easy\n(1,000 / 20)", "hard\n(5 / 0)"]
