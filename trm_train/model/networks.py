"""The networks that TRM is compared with, the network by architecture, and its fastest form on each platform.

HRM, a single state and a plain transformer share TRM's embedding, blocks, heads, carry and halting; `config/model.py`
has their options under the same names. `compute_on` selects the fastest implementation of a network's modules on each
platform; parameters and results are the same. docs/performance.md has the measured effect of each.
Source: the TRM paper, its published code, and the HRM paper (arXiv 2506.21734).

Other packages add networks through the entry point `trm_train.networks`: a subclass of `Network` whose attribute
`options` is its configuration class, a subclass of `NetworkConfig`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int
from typing_extensions import override

from trm_train.config.model import (
    CyclesConfig,
    HRMConfig,
    ModelConfig,
    NetworkConfig,
    SingleZConfig,
    TransformerConfig,
)
from trm_train.config.run import InputSpec
from trm_train.extensions import load_extension
from trm_train.model.attention import Attention
from trm_train.model.base import Flops, Network, States
from trm_train.model.blocks import TRM, BlockNetwork
from trm_train.model.layers import InputEmbedding, Linear, SwiGLU
from trm_train.model.mixer import Level, TokenMlpBlock
from trm_train.model.recursion import mean_squared_change, recomputing, without_gradient


class HRM(TRM):
    """TRM's two states with two networks, the one-step gradient and the continue loss."""

    def __init__(self, config: HRMConfig, spec: InputSpec, *, rngs: nnx.Rngs):
        shared = {item.name: getattr(config, item.name) for item in dataclasses.fields(CyclesConfig)}
        as_trm = ModelConfig(**shared, networks=2, gradient="one_step", no_act_continue=False)
        super().__init__(as_trm, spec, rngs=rngs)


class SingleZ(BlockNetwork):
    """One state `z_l` [B, L, D]: `h_cycles` times { `l_cycles` times z = f(z + e); then z = f(z) }."""

    answer = "z_l"
    latents = ("z_l",)

    def __init__(self, config: SingleZConfig, spec: InputSpec, *, rngs: nnx.Rngs):
        super().__init__(config, spec, levels=["level"], initial=["l_init"], rngs=rngs)
        self.h_cycles, self.l_cycles = config.h_cycles, config.l_cycles

    @override
    def initial_states(self, slots: int) -> States:
        return {"z_l": self.everywhere(self.l_init, slots)}

    @override
    def think(
        self, states: States, inputs: Int[Array, "B S"], puzzle_rows: Float[Array, "B N"] | None
    ) -> States:
        return self.think_from(states, inputs, puzzle_rows)[0]

    @override
    def think_from(
        self, states: States, inputs: Int[Array, "B S"], puzzle_rows: Float[Array, "B N"] | None
    ) -> tuple[States, Float[Array, " B"]]:
        z = self.level.pack(states["z_l"])
        e = self.level.pack(self.embedding(inputs, puzzle_rows))

        def cycle(level: nnx.Module, z: Array, e: Array) -> Array:
            update = recomputing(level) if self.recomputes else level
            for _ in range(self.l_cycles):
                z = update(z, e)
            return update(z, jnp.zeros_like(z))

        if self.h_cycles > 1:
            frozen, frozen_e = without_gradient(self.level), lax.stop_gradient(e)
            z, _ = lax.scan(
                lambda z, _: (cycle(frozen, z, frozen_e), None),
                lax.stop_gradient(z),
                length=self.h_cycles - 1,
            )
        before = lax.stop_gradient(z)
        after = self.level.unpack(cycle(self.level, before, e))
        return {"z_l": after}, mean_squared_change(self.level.unpack(before), after)

    @override
    def flops(self) -> Flops | None:
        cycle = self.l_cycles + 1
        return self.count(self.level, updates=self.h_cycles * cycle, with_gradient=cycle)


class Transformer(BlockNetwork):
    """One state `z_h` [B, L, D], updated once per supervision step: z_H = f(z_H + e)."""

    answer = "z_h"
    latents = ("z_h",)
    halts_against_continue = True

    def __init__(self, config: TransformerConfig, spec: InputSpec, *, rngs: nnx.Rngs):
        super().__init__(config, spec, levels=["level"], initial=["h_init"], rngs=rngs)

    @override
    def initial_states(self, slots: int) -> States:
        return {"z_h": self.everywhere(self.h_init, slots)}

    @override
    def think(
        self, states: States, inputs: Int[Array, "B S"], puzzle_rows: Float[Array, "B N"] | None
    ) -> States:
        level = recomputing(self.level) if self.recomputes else self.level
        z = level(self.level.pack(states["z_h"]), self.level.pack(self.embedding(inputs, puzzle_rows)))
        return {"z_h": self.level.unpack(z)}

    @override
    def flops(self) -> Flops | None:
        return self.count(self.level, updates=1, with_gradient=1)


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


@dataclass(frozen=True)
class Kernels:
    """Implementation of a network's modules.

    Attributes:
        positions_axis: For the blocks of `mlp_t`: 0 computes in [L, B, D], 1 in [B, L, D].
        two_products: Whether gate and up of a SwiGLU are two products.
        written_derivative: Whether the derivative of a product is hand-written (`product_for_cpu`).
        scatters: Whether the derivative of the token embedding is a scatter, or else a product (`look_up_by_product`).
        attention: Kernel of attention where it applies: written out, splash attention, or cuDNN's fused attention.
    """

    positions_axis: Literal[0, 1]
    two_products: bool
    written_derivative: bool
    scatters: bool
    attention: Literal["plain", "splash", "cudnn"]


KERNELS = {
    "cpu": Kernels(0, two_products=False, written_derivative=True, scatters=True, attention="plain"),
    "tpu": Kernels(1, two_products=True, written_derivative=False, scatters=True, attention="splash"),
    "cuda": Kernels(0, two_products=True, written_derivative=False, scatters=False, attention="cudnn"),
}
"""Implementation choices by platform."""


def platform_of(mesh: Mesh | None) -> str:
    """Return the platform of a mesh's devices (None: of this process's devices), a key of `KERNELS`."""
    name = jax.default_backend() if mesh is None else mesh.devices.flat[0].platform
    name = {"gpu": "cuda"}.get(name, name)
    return name if name in KERNELS else "cpu"


def compute_on(network: nnx.Module, platform: str) -> None:
    """Switch every module of a network to its implementation for a platform."""
    kernels = KERNELS[platform]
    for _, module in nnx.iter_modules(network):
        if isinstance(module, Linear):
            module.written_derivative = kernels.written_derivative
        elif isinstance(module, SwiGLU):
            module.two_products = kernels.two_products
        elif isinstance(module, Attention):
            module.kernel = kernels.attention
        elif isinstance(module, InputEmbedding):
            module.scatters = kernels.scatters
    for _, module in nnx.iter_modules(network):
        if isinstance(module, TokenMlpBlock):
            swiglu = module.token_mlp
            swiglu.axis = swiglu.gate_up.axis = swiglu.down.axis = kernels.positions_axis
        elif isinstance(module, Level) and isinstance(getattr(module, "block_0", None), TokenMlpBlock):
            module.positions_first = kernels.positions_axis == 0
