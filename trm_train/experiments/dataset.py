"""The dataset a run learns from, by its name alone: built if it is missing, or planned without being built."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from trm_data.errors import DataError, DatasetNotFoundError, SpecError
from trm_data.named import named_dataset
from trm_data.storage.root import Layout
from trm_train.config.run import InputSpec, grid_of


@dataclass(frozen=True, kw_only=True)
class PlannedDataset:
    """What the specification of a dataset says of its rows.

    Attributes:
        name: Of the dataset.
        input_spec: Shapes and sizes of its rows; see `identifiers` for how far `num_identifiers` can be known.
        groups: Training puzzles before augmentation; None where only the source knows.
        identifiers: `exact`; `at most`, where symmetric puzzles have fewer augmentations than were asked for; or
            `unknown`, where the number of puzzles is not in the specification, and one is counted.
        validation_rows: Rows of the validation split; None where only the source knows.
        test_rows: Rows of the test split; None where only the source knows.
    """

    name: str
    input_spec: InputSpec
    groups: int | None
    identifiers: Literal["exact", "at most", "unknown"]
    validation_rows: int | None
    test_rows: int | None


def plan_dataset(name: str) -> PlannedDataset | None:
    """A named dataset from its specification; None if it is no named one.

    Raises:
        SpecError: It cannot be built.
    """
    from trm_data.kinds.registry import load_kind
    from trm_data.specs import SourceSpec

    if not is_named(name):
        return None
    named = named_dataset(name)
    request = named.request()
    # The geometry does not depend on the source's digest, which would need its files.
    source = SourceSpec(kind="generated" if request.source.kind == "generated" else "csv")
    spec = request.spec(source, None if request.test_source is None else SourceSpec(kind="csv"))
    kind = load_kind(request.kind)
    kind.check_spec(spec)
    geometry = kind.geometry(spec)
    rows, identifiers = 1, "exact"
    if geometry.identifier_each and spec.size is None:
        identifiers = "unknown"
    elif geometry.identifier_each and spec.size is not None:
        rows, identifiers = 1 + spec.size * (spec.aug + 1), "at most"
    return PlannedDataset(
        name=name,
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


def is_named(name: str) -> bool:
    """Whether `trm-data build NAME` knows what to build."""
    try:
        named_dataset(name)
    except SpecError:
        return False
    return True


def is_built(name: str, layout: Layout) -> bool:
    """Whether a dataset is there; one that is damaged is."""
    from trm_data.manifest import read_manifest

    try:
        read_manifest(layout, name)
    except DatasetNotFoundError:
        return False
    except DataError:
        return True
    return True


def build_missing(
    name: str, layout: Layout, root: str | None, *, sources: Mapping[str, str], quiet: bool
) -> None:
    """Build a dataset by its name, as `trm-data build NAME` does, unless it is there.

    Args:
        name: Of the dataset.
        layout: The root.
        root: The root as the user gave it.
        sources: Where the puzzles of a kind come from, if not from where the dataset says.
        quiet: Show no progress.

    Raises:
        SpecError: It is no named dataset.
        SystemExit: The build failed and has said why.
    """
    from trm_data.cli import main
    from trm_data.manifest import read_manifest

    try:
        read_manifest(layout, name)
        return
    except DatasetNotFoundError:
        source = sources.get(named_dataset(name).kind)
    arguments = ["build", name, *(["--quiet"] if quiet else []), *(["--root", root] if root else [])]
    arguments += ["--source", source] if source else []
    with contextlib.redirect_stdout(sys.stderr):  # what the run prints is for whoever asked for the run
        try:
            main(arguments)
        except SystemExit as ended:
            if ended.code:
                raise
