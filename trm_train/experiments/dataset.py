"""Datasets of a run by name: plans from specifications, and builds of missing datasets."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from trm_data.errors import DataError, DatasetNotFoundError, SpecError
from trm_data.loader.component import Component, identifiers_of, place, vocabulary_of
from trm_data.named import named_dataset
from trm_data.storage.root import Layout
from trm_train.config.run import InputSpec, grid_of

Known = Literal["exact", "published", "at most", "unknown"]
"""Reliability of the number of identifiers before a dataset is built."""
PUBLISHED_IDENTIFIERS = {"arc1concept-aug-1000": 876_407, "arc2concept-aug-1000": 1_190_000}
"""Puzzle identifiers: ARC-1 as built here, ARC-2 rounded; the last digits depend on the random draws of a build."""


@dataclass(frozen=True, kw_only=True)
class PlannedDataset:
    """Properties of the rows of a dataset or mixture, as known from specifications.

    Attributes:
        name: Name of the dataset; all names of a mixture.
        kind: Kind of the puzzles; all kinds of a mixture.
        input_spec: Shapes and sizes of the rows; `identifiers` has the reliability of `num_identifiers`.
        groups: Training puzzles before augmentation; None if only the source has the number.
        identifiers: `exact`; `published`: the number of the published set; `at most`: symmetric puzzles have fewer
            augmentations than requested; `unknown`: the specification has no number of puzzles, and `num_identifiers`
            is 1.
        validation_rows: Rows of the validation split; None if only the source has the number.
        test_rows: Rows of the test split; None if only the source has the number.
    """

    name: str
    kind: str
    input_spec: InputSpec
    groups: int | None
    identifiers: Known
    validation_rows: int | None
    test_rows: int | None


def plan_dataset(name: str) -> PlannedDataset | None:
    """Plan a named dataset from its specification; return None for other names."""
    from trm_data.kinds.registry import load_kind
    from trm_data.specs import SourceSpec

    if not is_named(name):
        return None
    named = named_dataset(name)
    request = named.request()
    # The geometry does not depend on the digest of the source, which requires its files.
    source = SourceSpec(kind="generated" if request.source.kind == "generated" else "csv")
    spec = request.spec(source, None if request.test_source is None else SourceSpec(kind="csv"))
    kind = load_kind(request.kind)
    kind.check_spec(spec)
    geometry = kind.geometry(spec)
    rows, identifiers = 1, "exact"
    if name in PUBLISHED_IDENTIFIERS:
        rows, identifiers = PUBLISHED_IDENTIFIERS[name], "published"
    elif geometry.identifier_each and spec.size is None:
        identifiers = "unknown"
    elif geometry.identifier_each and spec.size is not None:
        rows, identifiers = 1 + spec.size * (spec.aug + 1), "at most"
    return PlannedDataset(
        name=name,
        kind=request.kind,
        input_spec=InputSpec(
            sequence_length=geometry.sequence_length,
            vocabulary_size=geometry.vocabulary_size,
            num_identifiers=rows,
            grid=grid_of(geometry.grid_rows, geometry.grid_columns),
        ),
        groups=spec.size,
        identifiers=identifiers,
        validation_rows=None if geometry.identifier_each else spec.val_size,
        test_rows=None if geometry.identifier_each else spec.test_size,
    )


def plan_datasets(names: Sequence[str]) -> PlannedDataset | None:
    """Plan a named dataset or a mixture of them; return None if one is not a named dataset."""
    found = [planned for name in names if (planned := plan_dataset(name)) is not None]
    if len(found) < len(names):
        return None
    return found[0] if len(found) == 1 else _mixed(found)


def _mixed(found: Sequence[PlannedDataset]) -> PlannedDataset:
    placed = place(
        [
            Component(
                dataset=each.name,
                kind=each.kind,
                content_digest="",
                identifiers_digest="",
                sequence_length=each.input_spec.sequence_length,
                vocabulary_size=each.input_spec.vocabulary_size,
                num_identifiers=each.input_spec.num_identifiers,
            )
            for each in found
        ]
    )

    def total(numbers: Sequence[int | None]) -> int | None:
        known = [number for number in numbers if number is not None]
        return sum(known) if len(known) == len(numbers) else None

    order: tuple[Known, ...] = get_args(Known)
    worst = max(order.index(each.identifiers) for each in found)
    return PlannedDataset(
        name="+".join(each.name for each in found),
        kind="+".join(dict.fromkeys(each.kind for each in found)),
        input_spec=InputSpec(
            sequence_length=max(each.sequence_length for each in placed),
            vocabulary_size=vocabulary_of(placed),
            num_identifiers=identifiers_of(placed),
        ),
        groups=total([each.groups for each in found]),
        identifiers=order[worst],
        validation_rows=total([each.validation_rows for each in found]),
        test_rows=total([each.test_rows for each in found]),
    )


def is_named(name: str) -> bool:
    """Return whether a name is a named dataset, for `trm-data build NAME`."""
    try:
        named_dataset(name)
    except SpecError:
        return False
    return True


def is_built(name: str, layout: Layout) -> bool:
    """Return whether a dataset exists, damaged or not."""
    from trm_data.manifest import read_manifest

    try:
        read_manifest(layout, name)
    except DatasetNotFoundError:
        return False
    except DataError:
        return True
    return True


def build_missing(name: str, layout: Layout, root: str | None, *, quiet: bool) -> None:
    """Build a named dataset if it is missing, as `trm-data build NAME` does.

    Args:
        name: Name of the dataset.
        layout: Root of the dataset.
        root: Value of --root, if set.
        quiet: Show no progress.
    """
    from trm_data.cli import main
    from trm_data.manifest import read_manifest

    with contextlib.suppress(DatasetNotFoundError):
        read_manifest(layout, name)
        return
    arguments = ["build", name, *(["--quiet"] if quiet else []), *(["--root", root] if root else [])]
    with contextlib.redirect_stdout(sys.stderr):  # stdout is for the result of the run
        try:
            main(arguments)
        except SystemExit as ended:
            if ended.code:
                raise
