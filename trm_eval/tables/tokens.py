"""The tokens of evaluated splits, read from the dataset when a query uses them."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import pyarrow as pa

from trm_data.errors import DataError, DatasetNotFoundError
from trm_data.loader.dataset import Dataset, open_dataset
from trm_data.manifest import read_manifest
from trm_data.storage.root import Layout
from trm_eval.tables.schema import PUZZLE_TOKENS
from trm_eval.tables.writer import token_lists

MOST_BYTES = 1_000_000_000
"""Tokens of a split that are held in memory (bytes)."""
READ_AT_ONCE = 65_536


def token_table(layout: Layout, evals: pa.Table) -> tuple[pa.Table, list[str]]:
    """Rows of `PUZZLE_TOKENS` of every split in `evals` that is there as it was evaluated, and a line for each that
    cannot be read or is too large.

    Args:
        layout: The root.
        evals: With the columns dataset, split and split_digest.
    """
    columns = (evals[name].to_pylist() for name in ("dataset", "split", "split_digest"))
    found, problems = [PUZZLE_TOKENS.empty_table()], list[str]()
    for name, split, digest in sorted(set(zip(*columns, strict=True))):
        try:
            entry = read_manifest(layout, name).splits.get(split)
            if entry is None or entry.digest != digest:
                continue
            dataset = open_dataset(name, layout, split)
            size = 2 * len(dataset) * dataset.sequence_length
            if size > MOST_BYTES:
                problems.append(
                    f"{name} ({split}): {size / 1e9:.1f} GB of tokens, of at most {MOST_BYTES / 1e9:.0f}: not in "
                    "puzzle_tokens; trm_data.open_dataset reads it"
                )
                continue
            found += _tables(dataset)
        except DatasetNotFoundError:
            continue  # its predictions stay, without puzzles
        except DataError as error:
            problems.append(str(error))
    return pa.concat_tables(found), problems


def _tables(dataset: Dataset) -> Generator[pa.Table, None, None]:
    for begin in range(0, len(dataset), READ_AT_ONCE):
        rows = np.arange(begin, min(begin + READ_AT_ONCE, len(dataset)))
        batch, picks, count = dataset.read(rows), dataset.groups.picks(rows), len(rows)
        facts = (dataset.name, dataset.split, dataset.split_digest)
        yield pa.table(
            [
                *(pa.array([fact] * count) for fact in facts),
                rows,
                picks.groups.astype(np.int32),
                picks.augmentations.astype(np.int32),
                *(token_lists(batch[name].astype(np.uint8)) for name in ("inputs", "labels")),
                np.full(count, dataset.manifest.grid_columns, np.int32),
            ],
            schema=PUZZLE_TOKENS,
        )
