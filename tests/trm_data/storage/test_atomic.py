"""Untrusted JSON: text that cannot be written again is refused."""

import json

import pytest

from trm_data.storage.atomic import parse_json


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
