"""Only the dashboard's own pages may send requests to it."""

from __future__ import annotations

import pytest

from trm_eval.serve.server import LOOPBACK, may_ask


@pytest.mark.parametrize(
    ("host", "origin", "allowed"),
    [
        ("127.0.0.1:8765", None, True),
        ("localhost:8765", "http://localhost:8765", True),
        ("[::1]:8765", "http://[::1]:8765", True),
        ("evil.example:8765", None, False),
        ("evil.example:8765", "http://evil.example:8765", False),
        ("127.0.0.1:8765", "http://evil.example", False),
        ("127.0.0.1:8765", "http://127.0.0.1:9999", False),
        ("127.0.0.1:8765", "null", False),
        ("", None, False),
        ("[::1:8765", None, False),
    ],
)
def test_on_this_machine(host: str, origin: str | None, allowed: bool) -> None:
    assert may_ask(host, origin, LOOPBACK) is allowed


def test_served_to_others_any_name_is_its_own_but_no_other_page_asks() -> None:
    assert may_ask("gpu-box:8765", "http://gpu-box:8765", None)
    assert not may_ask("gpu-box:8765", "http://evil.example", None)
