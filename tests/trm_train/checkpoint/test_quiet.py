"""Messages about Orbax's unfinished work are suppressed, even with other hooks for unraisable exceptions."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from trm_train.checkpoint.manager import let_work_be_given_up


def test_given_up_work_is_silent_again_after_somebody_has_put_another_hook(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = SimpleNamespace(exc_value=RuntimeError("Event loop is closed"), object=None)
    other = SimpleNamespace(exc_value=RuntimeError("of somebody else"), object=None)
    for _ in range(2):
        heard: list[object] = []
        monkeypatch.setattr(sys, "unraisablehook", heard.append)
        let_work_be_given_up()
        let_work_be_given_up()
        sys.unraisablehook(closed)  # pyright: ignore[reportArgumentType]
        sys.unraisablehook(other)  # pyright: ignore[reportArgumentType]
        assert heard == [other]
