"""The card of a dataset: a README.md next to its shards, and its summary as HTML. Both are made from the manifest."""

from __future__ import annotations

import hashlib
import json

from trm_data.kinds.registry import load_kind
from trm_data.manifest import Manifest
from trm_data.records import SourceFile
from trm_data.show.template import render
from trm_data.sources.base import FILES

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


_DIGEST_LINE = "<!-- sha256 of what stands above: {} -->\n"


def summary_html(manifest: Manifest) -> str:
    """Return the HTML of a dataset for notebooks: its splits as a table."""
    return render("trm_data", "summary.html", manifest=manifest)
