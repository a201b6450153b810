"""`croissant.json` of a Hugging Face folder: valid for the specification's own library, which reads the rows by it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from trm_data.card import FILE
from trm_data.export import export_dataset
from trm_data.loader.dataset import open_dataset
from trm_data.manifest import read_manifest
from trm_data.storage.atomic import file_sha256
from trm_data.storage.root import Layout
from trm_data.verify.flow import verify_exported


@pytest.fixture(scope="module")
def folder(small_layout: Layout, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("croissant") / "hub"
    export_dataset(small_layout, "small", out, "hf")
    return out


def test_it_names_files_splits_fields_licence_and_how_rows_were_made(
    folder: Path, small_layout: Layout
) -> None:
    manifest = read_manifest(small_layout, "small")
    described = json.loads((folder / FILE).read_text())
    assert described["conformsTo"] == "http://mlcommons.org/croissant/1.1"
    files = {item["contentUrl"]: item["sha256"] for item in described["distribution"] if "sha256" in item}
    assert files == {
        f"data/{path.name}": file_sha256(path) for path in sorted((folder / "data").glob("*.parquet"))
    }
    splits, *rows = described["recordSet"]
    assert {row["splits/name"]: row["splits/examples"] for row in splits["data"]} == {
        name: split.num_examples for name, split in manifest.splits.items()
    }
    assert [item["@id"] for item in rows] == list(manifest.splits)
    assert [field["name"] for field in rows[0]["field"]][:3] == ["inputs", "labels", "puzzle_identifier"]
    assert described["license"] == ["https://spdx.org/licenses/Apache-2.0.html"]
    assert {"generator: generated", f"seed: {manifest.spec.seed}"} <= set(described["keywords"])
    assert "trm-data build sudoku" in described["description"]
    assert manifest.content_digest in described["description"]
    assert verify_exported(folder).problems == []


@pytest.mark.filterwarnings("ignore")
def test_the_specifications_library_finds_nothing_wrong_and_reads_the_rows(
    folder: Path, small_layout: Layout
) -> None:
    mlcroissant = pytest.importorskip("mlcroissant", reason="of the development dependencies")
    found = mlcroissant.Dataset(jsonld=str(folder / FILE))
    issues = found.metadata.ctx.issues
    assert (issues.errors, issues.warnings) == (set(), set())
    dataset = open_dataset("small", small_layout, "test")
    expected = dataset.read(np.arange(len(dataset)))
    read = list(found.records("test"))
    assert len(read) == len(dataset)
    for name in ("inputs", "labels"):
        np.testing.assert_array_equal(np.stack([row[f"test/{name}"] for row in read]), expected[name])
