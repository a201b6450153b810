"""The network of each architecture: `config/model.py` has their options under the same tags."""

from __future__ import annotations

from collections.abc import Callable

from flax import nnx

from trm_data.closest import one_of
from trm_train.config.model import NetworkConfig
from trm_train.config.run import InputSpec
from trm_train.errors import ForeignRunError
from trm_train.model.base import Network
from trm_train.model.trm import TRM

NETWORKS: dict[str, Callable[..., Network]] = {"trm": TRM}
"""By the tag `architecture`; each is called with its options, the input specification and `rngs`."""


def make_network(config: NetworkConfig, spec: InputSpec, *, rngs: nnx.Rngs) -> Network:
    """A network with freshly drawn parameters.

    Args:
        config: Of the model.
        spec: Of the dataset.
        rngs: With the streams `params` and `latents`.

    Raises:
        ConfigError: The network cannot be as configured.
    """
    config.check()
    if config.architecture not in NETWORKS:
        raise ForeignRunError(one_of("model.architecture", NETWORKS, config.architecture))
    return NETWORKS[config.architecture](config, spec, rngs=rngs)
