"""Puzzle datasets: built into ArrayRecord shards with a catalog, and read back as batches.

Most programs need three functions:

    dataset = trm_data.build_dataset("sudoku", size=500, aug=1000)  # as `trm-data build`; reused if it exists
    dataset = trm_data.open_dataset("sudoku-generated-500-aug-1000", split="train")
    batches = trm_data.make_loader(dataset, global_batch_size=768, seed=0)

All are imported on first use, so that the command line does not load grain.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trm_data.building.fields import build_dataset
    from trm_data.catalog.query import sql
    from trm_data.kinds.registry import add_kind
    from trm_data.loader.dataset import Dataset, open_dataset
    from trm_data.loader.mixture import Mixture, open_mixture
    from trm_data.loader.pipeline import BatchLoader, Epoch, epoch, make_loader
    from trm_data.manifest import list_datasets

__all__ = [
    "BatchLoader",
    "Dataset",
    "Epoch",
    "Mixture",
    "add_kind",
    "build_dataset",
    "epoch",
    "list_datasets",
    "make_loader",
    "open_dataset",
    "open_mixture",
    "sql",
]
__version__ = "0.1.0"

_HOMES = {
    "add_kind": "trm_data.kinds.registry",
    "build_dataset": "trm_data.building.fields",
    "list_datasets": "trm_data.manifest",
    "Epoch": "trm_data.loader.pipeline",
    "epoch": "trm_data.loader.pipeline",
    "Dataset": "trm_data.loader.dataset",
    "open_dataset": "trm_data.loader.dataset",
    "Mixture": "trm_data.loader.mixture",
    "open_mixture": "trm_data.loader.mixture",
    "BatchLoader": "trm_data.loader.pipeline",
    "make_loader": "trm_data.loader.pipeline",
    "sql": "trm_data.catalog.query",
}


_MODULES = ("errors",)
"""Modules available as attributes without an import of their own."""


def __getattr__(name: str) -> object:
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"trm_data.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'trm_data' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, "__version__"])
