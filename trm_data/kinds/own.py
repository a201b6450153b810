"""Base class for kinds of puzzles from other packages.

Derive from `OwnKind` and register the class as an entry point of the group `trm_data.kinds`. Then the kind can be
built, verified, loaded, mixed and shown like those of this package. docs/own-puzzles.md shows an example.
"""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from trm_data.engine import Engine
from trm_data.errors import BuildError, SpecError
from trm_data.kinds.base import BasePuzzles, CheckedPuzzles, Geometry, check_sizes, named_problems
from trm_data.kinds.candidates import Candidates
from trm_data.kinds.choosing import Chooser, GeneratedStream, Stream
from trm_data.kinds.grids import StreamKind
from trm_data.records import Augmentations, Groups
from trm_data.seeds.draws import WordStream
from trm_data.show.drawing import Drawing
from trm_data.sources.base import LocalSource
from trm_data.specs import DatasetSpec, OwnOptions, Split
from trm_data.symmetry.base import Augmenter, Indices, Made, Tokens, keyed_elements

GENERATE_OWN = 1 << 32
"""Purpose of the random draws in generators of other packages, far above the values of `seeds.draws.Purpose`."""
MOST_LOOKED_AT = 64
"""Maximum number of symmetries for which all images are made to find the smallest."""


class OwnKind(StreamKind):
    """A kind of generated puzzles, one grid each. Override all methods not marked optional.

    A specification holds the digest of the kind's code: after a change of the code, a build is another dataset.

    Attributes:
        name: Name of the entry point.
        symmetries: Size of the symmetry group, the identity (0) included; 1 for no augmentations.
        option_names: Allowed names of `--option NAME=VALUE`.
    """

    name = ""
    symmetries = 1
    option_names: tuple[str, ...] = ()

    def shape(self, options: OwnOptions) -> tuple[int, int, int]:
        """Return rows and columns of the grid and the number of tokens, PAD (0) included.

        Raises:
            SpecError: An option is invalid.
        """
        raise NotImplementedError

    def generate(self, options: OwnOptions, draws: WordStream) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Return one puzzle: tokens of its input and label, uint8 [S] each; take all random draws from `draws`."""
        raise NotImplementedError

    def right(self, options: OwnOptions, puzzle: NDArray[np.uint8], label: NDArray[np.uint8]) -> bool:
        """Return whether a label is the answer of its puzzle."""
        raise NotImplementedError

    def image(self, options: OwnOptions, grid: NDArray[np.uint8], element: int) -> NDArray[np.uint8]:
        """Return the grid [S] under a symmetry, from 0 (the identity) on; optional if `symmetries` is 1."""
        if element:
            raise NotImplementedError(f"{self.name}: has {self.symmetries} symmetries, but no method image")
        return grid

    def canonical(self, options: OwnOptions, grid: NDArray[np.uint8]) -> bytes:
        """Optional: return bytes that are equal for all images of a grid, so that no two images are in two splits.

        Default: the smallest image. A kind with more than 64 symmetries must define a faster rule.
        """
        return min(self.image(options, grid, element).tobytes() for element in range(self.symmetries))

    def symbols(self, options: OwnOptions) -> str:
        """Optional: return a character for each token."""
        return ".123456789abcdefghijklmnopqrstuvwxyz"

    @override
    def check_spec(self, spec: DatasetSpec) -> None:
        options = _options(spec)
        needed = ["shape", "generate", "right", *(["image"] if self.symmetries > 1 else [])]
        missing = [name for name in needed if getattr(type(self), name) is getattr(OwnKind, name)]
        if missing:
            symmetries = f" (symmetries = {self.symmetries})" if missing == ["image"] else ""
            raise SpecError(f"{self.name}: the kind must define {', '.join(missing)}{symmetries}")
        unknown = [name for name, _ in options.values if name not in self.option_names]
        if unknown:
            known = ", ".join(self.option_names) or "none"
            raise SpecError(f"--option {unknown[0]}: unknown to {self.name}; it has {known}")
        try:
            self.shape(options)
        except (TypeError, ValueError) as error:
            shown = " ".join(f"{name}={value}" for name, value in options.values)
            raise SpecError(f"--option {shown}: {error}") from error
        if self.symmetries > MOST_LOOKED_AT and type(self).canonical is OwnKind.canonical:
            raise SpecError(
                f"{self.name}: has {self.symmetries:,} symmetries: the kind must define `canonical`"
            )
        check_sizes(spec, self.symmetries - 1, f"a puzzle of {self.name}")
        if spec.source.kind != "generated":
            raise SpecError(f"--source: puzzles of {self.name} are generated; leave the option out")

    @override
    def geometry(self, spec: DatasetSpec) -> Geometry:
        rows, columns, tokens = self.shape(_options(spec))
        return Geometry(grid_rows=rows, grid_columns=columns, vocabulary_size=tokens)

    @override
    def open_stream(
        self, spec: DatasetSpec, source: LocalSource, *, chooser: Chooser, engine: Engine, cache: Path
    ) -> Stream:
        return GeneratedStream(partial(self._generated, spec), engine, smallest=32)

    @override
    def augmentations(self, spec: DatasetSpec, chosen: Candidates, aug: int) -> Augmentations:
        return Augmentations.of_lists(
            [self._distinct_ks(spec, chosen, group, aug) for group in range(len(chosen))]
        )

    @override
    def augmenter(self, spec: DatasetSpec, split: Split, groups: Groups) -> Augmenter:
        return _OwnAugmenter(self, spec, groups)

    @override
    def elements(
        self, spec: DatasetSpec, groups: Groups, rows: NDArray[np.int64], ks: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        return keyed_elements(spec.seed, groups.keys, rows, ks, self.symmetries)

    @override
    def check_puzzles(self, spec: DatasetSpec, split: Split, puzzles: BasePuzzles) -> CheckedPuzzles:
        options, first = _options(spec), puzzles.first_group
        pairs = zip(puzzles.inputs, puzzles.labels, strict=True)
        wrong = [
            first + i for i, (puzzle, label) in enumerate(pairs) if not self.right(options, puzzle, label)
        ]
        problems = named_problems(
            split, "group", np.array(wrong, np.int64), "its label is not the puzzle's answer"
        )
        hashes = [self._hash(options, puzzle) for puzzle in puzzles.inputs]
        classes = [(f"{split} group {first + group}", hash_) for group, hash_ in enumerate(hashes)]
        return CheckedPuzzles(problems, hashes, classes)

    @override
    def draw(self, tokens: NDArray[np.uint8], spec: DatasetSpec) -> Drawing:
        options = _options(spec)
        rows, columns, _ = self.shape(options)
        symbols = self.symbols(options)
        grid = tokens.reshape(rows, columns)
        lines = tuple(
            "".join(symbols[token] if token < len(symbols) else "?" for token in row) for row in grid.tolist()
        )
        i, j = np.indices((rows, columns))
        return Drawing(lines, ((i + j) % 2).astype(np.uint8), ("#ffffff", "#e5e7eb"))

    def _generated(self, spec: DatasetSpec, stream: int, bounds: tuple[int, int]) -> Candidates:
        options = _options(spec)
        made = [
            self.generate(options, WordStream(spec.seed, GENERATE_OWN, number, stream))
            for number in range(*bounds)
        ]
        inputs, labels = (np.stack([pair[which] for pair in made]).astype(np.uint8) for which in (0, 1))
        if inputs.shape[1] != self.geometry(spec).sequence_length or inputs.shape != labels.shape:
            raise BuildError(f"{self.name}: generate made {inputs.shape[1]} and {labels.shape[1]} cells")
        hashes = np.array([self._hash(options, puzzle) for puzzle in inputs], np.str_)
        ones = np.ones(len(inputs), np.int64)
        return Candidates(inputs, labels, np.arange(*bounds), hashes, ones)

    def _hash(self, options: OwnOptions, puzzle: NDArray[np.uint8]) -> str:
        """Return the name of a puzzle's symmetry class, which all images share."""
        return hashlib.blake2b(self.canonical(options, puzzle), digest_size=16).hexdigest()

    def _distinct_ks(self, spec: DatasetSpec, chosen: Candidates, group: int, aug: int) -> NDArray[np.int32]:
        """Return the first k whose images differ from all earlier ones."""
        options = _options(spec)
        seen: set[bytes] = set()
        distinct: list[int] = []
        start = 0
        while start < self.symmetries and len(distinct) <= aug:
            ks = np.arange(start, min(start + aug + 1, self.symmetries), dtype=np.int64)
            zeros = np.zeros_like(ks)
            elements = keyed_elements(spec.seed, np.array([group]), zeros, ks, self.symmetries)
            for k, element in zip(ks.tolist(), elements.tolist(), strict=True):
                grids = chosen.inputs[group], chosen.labels[group]
                image = b"".join(self.image(options, grid, element).tobytes() for grid in grids)
                if image not in seen and len(distinct) <= aug:
                    seen.add(image)
                    distinct.append(k)
            start += len(ks)
        return np.array(distinct, np.int32)


class _OwnAugmenter:
    """Augmenter of another package's kind, which uses its `image`."""

    def __init__(self, kind: OwnKind, spec: DatasetSpec, groups: Groups) -> None:
        self._kind, self._spec, self._groups = kind, spec, groups

    def fill(self, groups: Indices, ks: Indices, examples: Indices, inputs: Tokens, labels: Tokens) -> Made:
        """Write one row for each slot: the kind's `image` of its group under its symmetry."""
        elements = self._kind.elements(self._spec, self._groups, groups, ks)
        options = _options(self._spec)
        for n, (group, element) in enumerate(zip(groups.tolist(), elements.tolist(), strict=True)):
            inputs[n] = self._kind.image(options, self._groups.inputs[group], element)
            labels[n] = self._kind.image(options, self._groups.labels[group], element)
        return Made(elements)


def _options(spec: DatasetSpec) -> OwnOptions:
    if not isinstance(spec.options, OwnOptions):
        raise SpecError(f"options of a {spec.kind} dataset: got those of another kind")
    return spec.options
