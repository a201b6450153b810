"""docs/experiments matches the registry, and parameter counts match the networks."""

from __future__ import annotations

import jax
import pytest

from tests.conftest import PROJECT
from tests.support.scripts import load_script
from trm_train.config.run import InputSpec
from trm_train.cost import checkpoint_bytes, parameters_of
from trm_train.experiments.registry import find_experiment
from trm_train.state import abstract_weights


def test_the_pages_are_what_the_registry_says() -> None:
    folder = PROJECT / "docs" / "experiments"
    written = load_script(PROJECT / "tools" / "pages.py").pages()
    assert {path.name for path in folder.glob("*.md")} - {"miniature.md"} == set(written)
    for name, text in written.items():
        assert (folder / name).read_text() == text, f"docs/experiments/{name} is stale: make pages"


@pytest.mark.parametrize("name", ["trm_sudoku_mlp", "trm_maze", "quickstart", "exp03e"])
def test_parameters_are_those_of_the_network(name: str) -> None:
    config = find_experiment(name).make()
    spec = InputSpec(sequence_length=81, vocabulary_size=11, num_identifiers=1)
    _, weights = abstract_weights(config, spec)
    counted = sum(leaf.size for leaf in jax.tree.leaves(weights.params))
    assert parameters_of(config.model, spec) == counted
    small, large = checkpoint_bytes(config, spec)
    assert small == 8 * counted < large
