"""The recorded roots have the formats of this checkout, and are small."""

from __future__ import annotations

import json

from tests.recorded import ARCHIVE, LIMIT_BYTES, _contents, recorded_versions, versions


def test_the_recorded_roots_are_not_stale() -> None:
    assert recorded_versions() == json.loads(json.dumps(versions())), "run python tests/recorded.py"


def test_the_recorded_roots_are_small_and_name_no_machine() -> None:
    assert ARCHIVE.stat().st_size <= LIMIT_BYTES
    for name, content in _contents().items():
        assert not any(place in content for place in (b"/tmp/", b"/home/", b"/root/", b"/work/")), name
