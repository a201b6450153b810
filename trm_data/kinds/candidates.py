"""Puzzles that may be chosen, with what a choice needs to know of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FACT = "fact_"


@dataclass(frozen=True)
class Candidates:
    """Valid puzzles with what a choice needs to know. N of S cells.

    Attributes:
        inputs: Tokens, uint8 [N, S].
        labels: Tokens, uint8 [N, S].
        source_rows: Where each is in its source, int64 [N].
        hashes: Of the canonical forms, text [N].
        automorphisms: Symmetries that map each puzzle to itself, int64 [N].
        facts: Columns of the catalog, each of N.
    """

    inputs: NDArray[np.uint8]
    labels: NDArray[np.uint8]
    source_rows: NDArray[np.int64]
    hashes: NDArray[np.str_]
    automorphisms: NDArray[np.int64]
    facts: dict[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])

    def __len__(self) -> int:
        return len(self.inputs)

    def columns(self) -> dict[str, NDArray[Any]]:
        """All arrays by name, facts as `fact_...`."""
        return {
            "inputs": self.inputs,
            "labels": self.labels,
            "source_rows": self.source_rows,
            "hashes": self.hashes,
            "automorphisms": self.automorphisms,
            **{_FACT + name: values for name, values in self.facts.items()},
        }

    @staticmethod
    def of_columns(columns: Mapping[str, NDArray[Any]]) -> Candidates:
        """Inverse of `columns`.

        Raises:
            KeyError: One is missing.
        """
        return Candidates(
            inputs=columns["inputs"],
            labels=columns["labels"],
            source_rows=columns["source_rows"],
            hashes=columns["hashes"],
            automorphisms=columns["automorphisms"],
            facts={
                name.removeprefix(_FACT): values for name, values in columns.items() if name.startswith(_FACT)
            },
        )

    def take(self, positions: NDArray[np.int64] | list[int]) -> Candidates:
        """Those at the positions `positions`."""
        return Candidates(
            inputs=self.inputs[positions],
            labels=self.labels[positions],
            source_rows=self.source_rows[positions],
            hashes=self.hashes[positions],
            automorphisms=self.automorphisms[positions],
            facts={name: values[positions] for name, values in self.facts.items()},
        )

    @staticmethod
    def concatenate(parts: list[Candidates]) -> Candidates:
        """All of `parts` in order."""
        return Candidates(
            inputs=np.concatenate([part.inputs for part in parts]),
            labels=np.concatenate([part.labels for part in parts]),
            source_rows=np.concatenate([part.source_rows for part in parts]),
            hashes=np.concatenate([part.hashes for part in parts]),
            automorphisms=np.concatenate([part.automorphisms for part in parts]),
            facts={name: np.concatenate([part.facts[name] for part in parts]) for name in parts[0].facts},
        )
