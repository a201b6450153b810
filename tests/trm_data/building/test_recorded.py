"""The record of a named dataset is copied with the dataset to another root, and never replaced there."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from trm_data.building.flow import build_dataset
from trm_data.building.recorded import FOLDER, copy_record, read_recorded, record
from trm_data.manifest import read_manifest
from trm_data.named import named_dataset
from trm_data.storage.root import resolve_root
from trm_data.sync import sync_datasets


def test_a_copy_is_remembered_as_the_first_build_was(tmp_path: Path, request_small) -> None:
    layouts = [resolve_root(tmp_path / name) for name in ("one", "two", "three")]
    named = dataclasses.replace(named_dataset("sudoku-extreme-1000-aug-1000"), name="small")
    build_dataset(request_small(name="small"), layouts[0])
    build_dataset(request_small(name="plain", size=4), layouts[0])
    record(layouts[0], named, read_manifest(layouts[0], "small"))
    done, warnings = sync_datasets(layouts[0], layouts[1])
    assert (len(done), warnings) == (2, [])
    assert read_recorded(layouts[1], "small") == read_recorded(layouts[0], "small") is not None
    assert read_recorded(layouts[1], "plain") is None
    assert copy_record(layouts[0], layouts[1], "small") == []

    other = read_manifest(layouts[0], "plain")
    record(layouts[2], named, other)  # another root, whose first build gave other rows
    (line,) = copy_record(layouts[0], layouts[2], "small")
    assert f"small: {layouts[2].place} remembers other rows of it ({other.content_digest[:12]})" in line
    kept = read_recorded(layouts[2], "small")
    assert kept is not None
    assert kept.content_digest == other.content_digest
    (tmp_path / "two" / FOLDER / "small.json").write_text("{}")
    (line,) = copy_record(layouts[0], layouts[1], "small")
    assert "small.json: is not what was written" in line
