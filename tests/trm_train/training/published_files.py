"""Published weights, and datasets that fit them, for tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trm_data.building.flow import build_dataset
from trm_data.kinds.imported.options import import_request
from trm_data.storage.root import Layout
from trm_train.weights import read_weights

FIXTURES = Path(__file__).parents[2] / "fixtures"
PUBLISHED = FIXTURES / "published_checkpoint.safetensors"
EXPECTED = FIXTURES / "published_checkpoint_expected.npz"
NAMES = ["<blank>", "a", "a|||t1|||0123456789"]
NETWORK = (
    *("--model.hidden-size", "32", "--model.num-heads", "2", "--model.puzzle-emb-len", "2"),
    *("--model.mixer", "attention", "--model.pos-encodings", "rope", "--model.forward-dtype", "float32"),
    *("--model.h-cycles", "2", "--model.l-cycles", "2", "--model.halt-max-steps", "4"),
)
"""Options that turn the quickstart's network into that of the fixture."""
TABLE = "inner.puzzle_emb.weights"


def write_layout(
    folder: Path, inputs: np.ndarray, identifiers: Sequence[int], names: list[str], vocabulary: int = 6
) -> None:
    """Write rows in the published layout, each its own puzzle and group, the same in both splits."""
    count, cells = inputs.shape
    facts = {
        "sets": ["all"],
        "seq_len": cells,
        "vocab_size": vocabulary,
        "num_puzzle_identifiers": len(names),
    }
    arrays = {
        "inputs": inputs.astype(np.uint8),
        "labels": np.ones_like(inputs, np.uint8),
        "puzzle_identifiers": np.array(identifiers, np.int32),
        "puzzle_indices": np.arange(count + 1, dtype=np.int32),
        "group_indices": np.arange(count + 1, dtype=np.int32),
    }
    for split in ("train", "test"):
        (folder / split).mkdir(parents=True)
        (folder / split / "dataset.json").write_text(json.dumps(facts))
        for name, array in arrays.items():
            np.save(folder / split / f"all__{name}.npy", array)
    (folder / "identifiers.json").write_text(json.dumps(names))


def add_dataset(layout: Layout, name: str, folder: Path, names: list[str], **options: Any) -> None:
    """Build a dataset from the fixture's inputs under a root."""
    with np.load(EXPECTED) as expected:
        inputs, identifiers = expected["inputs"], expected["puzzle_identifiers"]
    identifiers = identifiers if len(names) > 1 else np.zeros_like(identifiers)
    write_layout(folder / name, inputs, identifiers, names, **options)
    build_dataset(import_request(str(folder / name), name, None), layout)


def published() -> dict[str, np.ndarray]:
    """Return the fixture's tensors, without their prefix."""
    return {name.removeprefix("_orig_mod.model."): array for name, array in read_weights(PUBLISHED).items()}
