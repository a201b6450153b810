"""`trm-data describe`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from trm_data.command import Json, Root, emit
from trm_data.commands.common import Name
from trm_data.show.render import print_drawings, print_table
from trm_data.storage.root import resolve_root

if TYPE_CHECKING:
    from trm_data.describe import Example


@dataclass(frozen=True, kw_only=True)
class Describe:
    """Describe a dataset: specification, splits, counts, sizes, digest, one example.

    For example:

      trm-data describe sudoku-generated-500-aug-1000
    """

    name: Name
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Print the description."""
        from trm_data.describe import read_example
        from trm_data.manifest import describe_dataset

        layout = resolve_root(self.root)
        described = describe_dataset(layout, self.name)
        example = read_example(layout, self.name, next(iter(described["splits"])), 0)
        emit(described, partial(_print, described, example), as_json=self.json)
        return 0


def _print(described: dict[str, Any], example: Example) -> None:
    spec = described.pop("spec")
    splits = described.pop("splits")
    libraries = described.pop("libraries")
    described["kind"] = described.pop("kind_label")
    described["size_bytes"] = f"{described['size_bytes']:,}"
    described["libraries"] = ", ".join(f"{name} {version}" for name, version in libraries.items())
    print_table(["", ""], list(described.items()))
    print_table(["specification", ""], list(_flat(spec)))
    columns = ["groups", "puzzles", "examples", "shards", "bytes", "digest"]
    keys = ["num_groups", "num_puzzles", "num_examples", "shards", "size_bytes"]
    print_table(
        ["split", *columns],
        [(name, *(f"{s[key]:,}" for key in keys), s["digest"][:12]) for name, s in splits.items()],
    )
    print_example(example)


def print_example(example: Example) -> None:
    """Print an example of a dataset."""
    print(example.title)
    print_drawings([("given", example.puzzle), ("solution", example.solution)])


def _flat(value: dict[str, object], prefix: str = "") -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for key, item in value.items():
        if isinstance(item, dict):
            rows += _flat(item, f"{prefix}{key}.")
        else:
            rows.append((prefix + key, "" if item is None else item))
    return rows
