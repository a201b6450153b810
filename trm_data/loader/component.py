"""One dataset of a mixture: its ranges of tokens and identifiers, and padding to the longest rows.

This module imports neither kernels nor loaders, so that the record of a run can contain a `Component`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from trm_data.errors import SpecError

if TYPE_CHECKING:  # help imports this module
    import numpy as np
    from numpy.typing import NDArray

    from trm_data.loader.rows import Batch
    from trm_data.manifest import Manifest

SharedPuzzles = Literal["refuse", "drop"]
"""What a mixture does with training puzzles that another of its datasets tests."""
MOST_TOKENS = 256
"""Maximum vocabulary size, because each cell is one byte."""


@dataclass(frozen=True, kw_only=True)
class Component:
    """One dataset of a mixture.

    Attributes:
        dataset: Its name.
        kind: Kind of its puzzles.
        content_digest: Digest of its rows.
        identifiers_digest: Digest of the names of its identifiers.
        sequence_length: Cells of its own rows.
        vocabulary_size: Number of its own tokens, PAD included.
        num_identifiers: Number of its own identifiers, the blank one included.
        token_offset: Added to its tokens, except PAD.
        identifier_offset: Added to its identifiers.
    """

    dataset: str
    kind: str
    content_digest: str
    identifiers_digest: str
    sequence_length: int
    vocabulary_size: int
    num_identifiers: int
    token_offset: int = 0
    identifier_offset: int = 0

    def encode(self, batch: Batch, sequence_length: int) -> Batch:
        """Convert rows of the dataset, with or without labels, to rows of the mixture, with `sequence_length` cells."""
        import numpy as np

        padding = ((0, 0), (0, sequence_length - self.sequence_length))

        def moved(tokens: NDArray[np.uint8] | NDArray[np.int32]) -> NDArray[np.uint8]:
            shifted = np.where(tokens > 0, tokens.astype(np.int32) + self.token_offset, 0)
            return np.pad(shifted.astype(np.uint8), padding)

        tokens = {name: moved(batch[name]) for name in ("inputs", "labels") if name in batch}
        identifiers = batch["puzzle_identifiers"] + np.int32(self.identifier_offset)
        return {**batch, **tokens, "puzzle_identifiers": identifiers.astype(np.int32)}

    def decode(self, tokens: NDArray[np.integer]) -> NDArray[np.uint8]:
        """Convert tokens [..., S] of the mixture to tokens of the dataset, without padding; other tokens become PAD."""
        import numpy as np

        own = tokens[..., : self.sequence_length].astype(np.int32) - self.token_offset
        return np.where((own > 0) & (own < self.vocabulary_size), own, 0).astype(np.uint8)


def component_of(manifest: Manifest) -> Component:
    """Return the component of a dataset, without offsets."""
    return Component(
        dataset=manifest.name,
        kind=manifest.kind,
        content_digest=manifest.content_digest,
        identifiers_digest=manifest.identifiers_digest,
        sequence_length=manifest.sequence_length,
        vocabulary_size=manifest.vocabulary_size,
        num_identifiers=manifest.num_identifiers,
    )


def place(components: Sequence[Component]) -> tuple[Component, ...]:
    """Assign the offsets of all datasets, in order; those of one kind and vocabulary share their tokens."""
    ranges: dict[tuple[str, int], int] = {}
    placed: list[Component] = []
    vocabulary, identifiers = 1, 0
    for each in components:
        key = each.kind, each.vocabulary_size
        if key not in ranges:
            ranges[key] = vocabulary - 1
            vocabulary += each.vocabulary_size - 1
        placed.append(replace(each, token_offset=ranges[key], identifier_offset=identifiers))
        identifiers += each.num_identifiers
    if vocabulary > MOST_TOKENS:
        names = ", ".join(each.dataset for each in components)
        raise SpecError(
            f"the mixture of {names}: too many tokens (got {vocabulary}; expected at most {MOST_TOKENS}, PAD included, "
            "for rows of bytes). Leave out a dataset."
        )
    return tuple(placed)


def vocabulary_of(components: Sequence[Component]) -> int:
    """Return the number of tokens of a mixture, PAD included."""
    return max(each.token_offset + each.vocabulary_size for each in components)


def identifiers_of(components: Sequence[Component]) -> int:
    """Return the number of puzzle identifiers of a mixture."""
    return sum(each.num_identifiers for each in components)


def digest_of_all(digests: Sequence[str]) -> str:
    """Return one digest over the digests of several datasets, in order."""
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()
