"""A save that does not end is said to take long, and ended by whom it cannot reach, its own limit, or the others."""

from __future__ import annotations

import threading

import pytest

from trm_data.command import Exit
from trm_data.errors import BucketError
from trm_train.training import overdue
from trm_train.training.overdue import Overdue


class Watched:
    """What an `Overdue` says, and how it ends."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.said: list[str] = []
        self.end: tuple[str, Exit] | None = None
        self.told: tuple[str, Exit] | None = None
        self.away = ""

    def watch(self, limit_s: float) -> Overdue:
        return Overdue(
            what="saving",
            limit_s=limit_s,
            say=self.said.append,
            ask=self._ask,
            told=lambda: self.told,
            end=self._end,
        )

    def _ask(self) -> None:
        if self.away:
            raise BucketError(self.away)

    def _end(self, reason: str, code: Exit) -> None:
        self.end = (reason, code)
        self.ended.set()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """With waits of tenths of seconds."""
    monkeypatch.setattr(overdue, "SAID_S", 0.2)
    monkeypatch.setattr(overdue, "ASK_S", 0.1)
    monkeypatch.setattr(overdue, "GRACE_S", 0.2)
    return Watched()


@pytest.mark.parametrize("code", [Exit.BUCKET, Exit.STALLED])
def test_it_ends_as_the_one_that_gave_up_first(watched: Watched, code: Exit) -> None:
    with watched.watch(0):
        watched.told = ("process 1 of 2 gave up", code)
        assert watched.ended.wait(60)
    assert watched.end == ("process 1 of 2 gave up", code)


def test_it_ends_where_the_bucket_does_not_answer(watched: Watched) -> None:
    with watched.watch(0):
        watched.away = "gs://bucket: no answer"
        assert watched.ended.wait(60)
    assert watched.end == ("gs://bucket: no answer", Exit.BUCKET)


def test_it_ends_at_its_limit_and_says_before_that_it_takes_long(watched: Watched) -> None:
    with watched.watch(0.8):
        assert watched.ended.wait(60)
    assert watched.end is not None
    reason, code = watched.end
    assert (code, "--execution.save-limit-s 0" in reason) == (Exit.STALLED, True)
    assert watched.said[0].startswith("saving for ")


def test_nothing_ends_what_is_over(watched: Watched) -> None:
    with watched.watch(0.3):
        pass
    assert not watched.ended.wait(1)
