"""A network, a mixer and an optimizer of one's own, for `trm-train run EXPERIMENT --model.architecture gated`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from trm_train.config.model import BlocksConfig
from trm_train.config.optim import OptimizerConfig
from trm_train.config.run import InputSpec
from trm_train.model.base import Flops, States
from trm_train.model.blocks import BlockNetwork
from trm_train.model.layers import Linear, SwiGLU, rms_norm


@dataclass(frozen=True, kw_only=True)
class GatedConfig(BlocksConfig):
    """Options of the network; `--model.updates 8` sets one."""

    architecture: Literal["gated"] = "gated"
    updates: int = 4
    """Updates of the state in one supervision step; all carry gradient."""


class Gated(BlockNetwork):
    """One state z, moved towards f(z + e) by a learned gate, `updates` times in each supervision step."""

    options = GatedConfig
    answer = "z"  # the state that the output heads read
    latents = ("z",)  # the states that `trm-eval run --samples K` adds noise to

    def __init__(self, config: GatedConfig, spec: InputSpec, *, rngs: nnx.Rngs):
        super().__init__(config, spec, levels=["level"], initial=["z_init"], rngs=rngs)
        self.gate = Linear(config.hidden_size, config.hidden_size, rngs=rngs)
        self.updates = config.updates

    def initial_states(self, slots: int) -> States:
        return {"z": self.everywhere(self.z_init, slots)}

    def think(self, states: States, inputs: Any, puzzle_rows: Any) -> States:
        z, e = states["z"], self.embedding(inputs, puzzle_rows)
        for _ in range(self.updates):
            new = self.level.unpack(self.level(self.level.pack(z), self.level.pack(e)))
            share = jax.nn.sigmoid(self.gate(new))
            z = share * new + (1 - share) * z
        return {"z": z}

    def flops(self) -> Flops | None:
        return self.count(self.level, updates=self.updates, with_gradient=self.updates)


class ShiftBlock(nnx.Module):
    """A mixer: every position adds its neighbour (`--model.mixer shift`)."""

    positions_first = False  # computes in [B, L, D]

    def __init__(self, config: BlocksConfig, length: int, *, rngs: nnx.Rngs):
        self.mlp = SwiGLU(config.hidden_size, config.expansion, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = rms_norm(x + jnp.roll(x, 1, axis=1))
        return rms_norm(x + self.mlp(x))

    def flops(self, length: int) -> float:
        return self.mlp.flops(length)


@dataclass(frozen=True, kw_only=True)
class MomentumConfig(OptimizerConfig):
    """An optimizer: SGD with momentum (`--optim.name momentum`)."""

    name: Literal["momentum"] = "momentum"
    beta: float = 0.9

    def make(self, rate: Any) -> Any:
        return optax.sgd(rate, momentum=self.beta)
