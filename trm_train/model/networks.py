"""The network of each architecture; `config/model.py` has their options under the same names.

Other packages add networks through the entry point `trm_train.networks`: a subclass of `Network` whose attribute
`options` is its configuration class, a subclass of `NetworkConfig`.
"""

from __future__ import annotations

from collections.abc import Callable

from flax import nnx

from trm_train.config.model import NetworkConfig
from trm_train.config.run import InputSpec
from trm_train.extensions import load_extension
from trm_train.model.base import Network
from trm_train.model.baselines import HRM, SingleZ, Transformer
from trm_train.model.trm import TRM

NETWORKS: dict[str, Callable[..., Network]] = {
    "trm": TRM,
    "single_z": SingleZ,
    "hrm": HRM,
    "transformer": Transformer,
}
"""Constructors by `architecture`; arguments are its options, the input specification and `rngs`."""


def make_network(config: NetworkConfig, spec: InputSpec, *, rngs: nnx.Rngs) -> Network:
    """Return a network with newly drawn parameters.

    Args:
        config: Configuration of the model.
        spec: Input sizes of the dataset.
        rngs: Random streams `params` and `latents`.
    """
    config.check()
    name = config.architecture
    make = NETWORKS.get(name) or load_extension("networks", name, NETWORKS, "model.architecture")
    return make(config, spec, rngs=rngs)
