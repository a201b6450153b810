"""Files of a local root."""

from __future__ import annotations

from pathlib import Path

from trm_data.storage.local import LocalStore


def test_a_file_is_created_once(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    assert store.create("a/manifest.json", b"first")
    assert not store.create("a/manifest.json", b"second")
    assert store.create("a/manifest.json", b"first")
    assert (tmp_path / "a" / "manifest.json").read_bytes() == b"first"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["manifest.json"]
