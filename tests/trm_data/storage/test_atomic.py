"""Untrusted JSON: text that cannot be written again is refused.

Files of a local root.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trm_data.storage.atomic import parse_json
from trm_data.storage.local import LocalStore


@pytest.mark.parametrize(
    "content",
    ['{"a": "\\ud800"}', '{"\\uDFFF": 1}', b'["x\\udc00\\ud800"]', b'["\xed\xa0\x80"]', '["\ud800"]'],
)
def test_half_a_character_is_refused(content: bytes | str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # either error names the place
        parse_json(content)


@pytest.mark.parametrize("content", ['["\\ud83d\\ude00"]', '["\\\\ud800"]', "\ufeff[1]".encode(), b"[1]"])
def test_whole_characters_are_read(content: bytes | str) -> None:
    assert parse_json(content) == json.loads(content)


def test_a_file_is_created_once(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    assert store.create("a/manifest.json", b"first")
    assert not store.create("a/manifest.json", b"second")
    assert store.create("a/manifest.json", b"first")
    assert (tmp_path / "a" / "manifest.json").read_bytes() == b"first"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["manifest.json"]
