"""The card of a dataset: a README.md next to its shards, its summary as HTML, and `croissant.json` for hubs.

Card and summary are made from the manifest alone. `croissant.json` is the machine-readable description that MLCommons'
Croissant 1.1 defines. It names every file with its checksum, the splits, the columns with their types, the licence, and
how the rows were made: generator, seed and command. Dataset hubs and `mlcroissant` read it.
Source: the Croissant 1.1 specification, https://docs.mlcommons.org/croissant/docs/croissant-spec-1.1.html.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from trm_data.kinds.registry import load_kind
from trm_data.manifest import Manifest
from trm_data.records import SourceFile
from trm_data.show.template import render
from trm_data.sources.base import FILES
from trm_data.storage.atomic import file_sha256

CARD = "README.md"


def dataset_card(manifest: Manifest, sources: list[SourceFile]) -> str:
    """Return the card: content, source, licence, size and build command of the dataset."""
    spec = manifest.spec
    return render(
        "trm_data",
        "card.md",
        manifest=manifest,
        kind=load_kind(manifest.kind),
        sources=sources,
        own_file=spec.source.kind in FILES and "@" not in spec.source.name,
        command=spec.options.build_command(manifest.name, spec),
        specification=json.dumps(spec.to_json(), indent=1, sort_keys=True),
    )


def card_bytes(manifest: Manifest, sources: list[SourceFile]) -> bytes:
    """Return the card as file content, with its digest in the last line."""
    text = dataset_card(manifest, sources).encode()
    return text + _DIGEST_LINE.format(hashlib.sha256(text).hexdigest()).encode()


def card_problem(content: bytes) -> str:
    """Describe what is wrong with a card's bytes; empty if they are unchanged, or older than the digest line."""
    text, mark, rest = content.rpartition(_DIGEST_LINE.partition("{")[0].encode())
    if not mark:
        return ""
    whole = _DIGEST_LINE.format(hashlib.sha256(text).hexdigest()).encode()
    return "" if mark + rest == whole else "its bytes are not those that were written"


_DIGEST_LINE = "<!-- sha256 of what stands above: {} -->\n"


def summary_html(manifest: Manifest) -> str:
    """Return the HTML of a dataset for notebooks: its splits as a table."""
    return render("trm_data", "summary.html", manifest=manifest)


FILE = "croissant.json"
PARQUET = "application/x-parquet"
COLUMNS = {
    "puzzle_identifier": "Row of the puzzle-embedding table; 0 is shared by all puzzles without one.",
    "group": "Base puzzle, from 0.",
    "augmentation": "Augmentation within the group; 0 is the original.",
    "example": "Example within the augmentation, from 0.",
}
LICENCES = "https://spdx.org/licenses/"
UNKNOWN = "unknown"
"""Value for a licence that no source states."""
_TERMS = (
    "arrayShape citeAs column containedIn equivalentProperty extract field fileObject fileProperty fileSet format "
    "includes isArray isLiveDataset jsonPath key md5 parentField path recordSet references regex repeated replace "
    "samplingRate separator source subField transform"
)
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
    **{term: f"cr:{term}" for term in _TERMS.split()},
}
"""JSON-LD context of the specification; without it, the terms are those of schema.org."""


def write_croissant(manifest: Manifest, sources: Sequence[SourceFile], folder: Path) -> None:
    """Write the description into a Hugging Face dataset folder."""
    files = {
        path.relative_to(folder).as_posix(): path for path in sorted((folder / "data").glob("*.parquet"))
    }
    described = croissant(manifest, sources, {name: file_sha256(path) for name, path in files.items()})
    (folder / FILE).write_text(json.dumps(described, indent=1) + "\n", "utf-8")


def croissant(manifest: Manifest, sources: Sequence[SourceFile], files: Mapping[str, str]) -> dict[str, Any]:
    """Return the description.

    Args:
        manifest: Manifest of the dataset.
        sources: Files that its puzzles were read from.
        files: sha256 of each Parquet file, by its name in the folder.
    """
    spec, kind = manifest.spec, load_kind(manifest.kind)
    made = spec.source.kind if spec.source.kind == "generated" else f"read from {spec.source.name}"
    command = spec.options.build_command(manifest.name, spec)
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": manifest.name,
        "description": f"{kind.about or manifest.kind} Puzzles: {made}, seed {spec.seed}, built by trm-lab "
        f"{version('trm-lab')}: {command}. Content digest {manifest.content_digest}.",
        "url": f"https://huggingface.co/datasets/{manifest.name}",
        "version": f"{manifest.builder_version}.0.0",
        "license": _licences(sources),
        "creator": {"@type": "sc:Organization", "name": "trm-lab"},
        "datePublished": manifest.built_at,
        "keywords": [manifest.kind, "puzzles", f"generator: {spec.source.kind}", f"seed: {spec.seed}"],
        **({"citeAs": kind.citation} if kind.citation else {}),
        "distribution": [
            *(_file(name, digest) for name, digest in files.items()),
            *(_file_set(split) for split in manifest.splits if len(_files_of(split, files)) > 1),
        ],
        "recordSet": [
            _splits(manifest),
            *(_rows(manifest, split, _files_of(split, files)) for split in manifest.splits),
        ],
    }


def _licences(sources: Sequence[SourceFile]) -> list[str]:
    """Return this package's licence for generated puzzles, else the licences stated by their sources."""
    stated = dict.fromkeys(source.licence or UNKNOWN for source in sources) or {"Apache-2.0": None}
    return [name if name == UNKNOWN or " " in name else f"{LICENCES}{name}.html" for name in stated]


def _file(name: str, digest: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": name,
        "encodingFormat": PARQUET,
        "sha256": digest,
    }


def _files_of(split: str, files: Mapping[str, str]) -> list[str]:
    return [name for name in files if name.startswith(f"data/{split}-")]


def _file_set(split: str) -> dict[str, Any]:
    """Return the file set of a split with several files."""
    return {
        "@type": "cr:FileSet",
        "@id": f"{split}-files",
        "name": f"{split}-files",
        "description": f"Parquet files of the {split} split.",
        "encodingFormat": PARQUET,
        "includes": f"data/{split}-*.parquet",
    }


def _splits(manifest: Manifest) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": "splits",
        "name": "splits",
        "description": "Splits of the dataset.",
        "dataType": "cr:Split",
        "key": {"@id": "splits/name"},
        "field": [
            {"@type": "cr:Field", "@id": "splits/name", "name": "name", "dataType": "sc:Text"},
            {"@type": "cr:Field", "@id": "splits/examples", "name": "examples", "dataType": "sc:Integer"},
        ],
        "data": [
            {"splits/name": name, "splits/examples": split.num_examples}
            for name, split in manifest.splits.items()
        ],
    }


def _rows(manifest: Manifest, split: str, files: Sequence[str]) -> dict[str, Any]:
    source = {"fileObject": {"@id": files[0]}} if len(files) == 1 else {"fileSet": {"@id": f"{split}-files"}}
    cells = f"{manifest.grid_rows} x {manifest.grid_columns} tokens, row by row; 0 is padding"
    says = {"inputs": f"The puzzle: {cells}.", "labels": f"Its solution: {cells}.", **COLUMNS}
    return {
        "@type": "cr:RecordSet",
        "@id": split,
        "name": split,
        "description": f"Rows of the {split} split.",
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{split}/{column}",
                "name": column,
                "description": text,
                "dataType": "sc:Integer",
                **(
                    {"isArray": True, "arrayShape": str(manifest.sequence_length)}
                    if column in ("inputs", "labels")
                    else {}
                ),
                "source": {**source, "extract": {"column": column}},
            }
            for column, text in says.items()
        ],
    }
