"""The Tiny Recursive Model and its variants: two states, with one shared network of blocks or one for each state.

Source: the TRM paper and its published code.
"""

from __future__ import annotations

from flax import nnx
from jaxtyping import Array, Float, Int
from typing_extensions import override

from trm_train.config.model import ModelConfig
from trm_train.config.run import InputSpec
from trm_train.model.base import Flops, States
from trm_train.model.blocks import BlockNetwork
from trm_train.model.recursion import Levels, mean_squared_change, recurse


class TRM(BlockNetwork):
    """States: `z_h` (answer) and `z_l` (latent), [B, L, D]; multi-scale has `z_l_0`, `z_l_1`, ... for `z_l`.

    With two networks, `level` updates z_L and `high_level` updates z_H. Multi-scale: update k of a cycle replaces the
    k-th z_L by f(sum of all z_L, z_H + e), and z_H reads the sum; each z_L has its own initial vector.
    """

    answer = "z_h"

    def __init__(self, config: ModelConfig, spec: InputSpec, *, rngs: nnx.Rngs):
        scales = config.l_cycles if config.multi_scale else 1
        initial = [f"l_init_{k}" for k in range(scales)] if config.multi_scale else ["l_init"]
        self.latents = tuple(f"z_l_{k}" for k in range(scales)) if config.multi_scale else ("z_l",)
        levels = ["level", "high_level"] if config.two_networks else ["level"]
        super().__init__(config, spec, levels=levels, initial=["h_init", *initial], rngs=rngs)
        self.initial = tuple(initial)
        self.h_cycles, self.l_cycles = config.h_cycles, config.l_cycles
        self.one_step = config.gradient == "one_step"
        self.two_networks = config.two_networks
        self.continue_loss = self.halts_against_continue = not config.no_act_continue

    @override
    def initial_states(self, slots: int) -> States:
        states = {"z_h": self.everywhere(self.h_init, slots)}
        for name, initial in zip(self.latents, self.initial, strict=True):
            states[name] = self.everywhere(getattr(self, initial), slots)
        return states

    @override
    def think(
        self, states: States, inputs: Int[Array, "B S"], puzzle_rows: Float[Array, "B N"] | None
    ) -> States:
        return self.think_from(states, inputs, puzzle_rows)[0]

    @override
    def think_from(
        self, states: States, inputs: Int[Array, "B S"], puzzle_rows: Float[Array, "B N"] | None
    ) -> tuple[States, Float[Array, " B"]]:
        pack, unpack = self.level.pack, self.level.unpack
        z_h, z_l, before = recurse(
            Levels(low=self.level, high=self.high_level if self.two_networks else self.level),
            pack(states["z_h"]),
            tuple(pack(states[name]) for name in self.latents),
            pack(self.embedding(inputs, puzzle_rows)),
            h_cycles=self.h_cycles,
            l_cycles=self.l_cycles,
            one_step=self.one_step,
            recomputes=self.recomputes,
        )
        z_h = unpack(z_h)
        latents = {name: unpack(z) for name, z in zip(self.latents, z_l, strict=True)}
        return {"z_h": z_h, **latents}, mean_squared_change(unpack(before), z_h)

    @override
    def flops(self) -> Flops | None:
        cycle = self.l_cycles + 1
        return self.count(
            self.level, updates=self.h_cycles * cycle, with_gradient=2 if self.one_step else cycle
        )
