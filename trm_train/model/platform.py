"""The fastest implementation of the network's modules on each platform; parameters and results are the same.

docs/performance.md has the measured effect of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import jax
from flax import nnx
from jax.sharding import Mesh

from trm_train.model.attention import Attention
from trm_train.model.embedding import InputEmbedding
from trm_train.model.layers import Linear, SwiGLU
from trm_train.model.mixer import Level, TokenMlpBlock


@dataclass(frozen=True)
class Form:
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


FORMS = {
    "cpu": Form(0, two_products=False, written_derivative=True, scatters=True, attention="plain"),
    "tpu": Form(1, two_products=True, written_derivative=False, scatters=True, attention="splash"),
    "cuda": Form(0, two_products=True, written_derivative=False, scatters=False, attention="cudnn"),
}
"""Implementation choices by platform."""


def platform_of(mesh: Mesh | None) -> str:
    """Return the platform of a mesh's devices (None: of this process's devices), a key of `FORMS`."""
    name = jax.default_backend() if mesh is None else mesh.devices.flat[0].platform
    name = {"gpu": "cuda"}.get(name, name)
    return name if name in FORMS else "cpu"


def compute_on(network: nnx.Module, platform: str) -> None:
    """Switch every module of a network to its implementation for a platform."""
    form = FORMS[platform]
    for _, module in nnx.iter_modules(network):
        if isinstance(module, Linear):
            module.written_derivative = form.written_derivative
        elif isinstance(module, SwiGLU):
            module.two_products = form.two_products
        elif isinstance(module, Attention):
            module.kernel = form.attention
        elif isinstance(module, InputEmbedding):
            module.scatters = form.scatters
    for _, module in nnx.iter_modules(network):
        if isinstance(module, TokenMlpBlock):
            swiglu = module.token_mlp
            swiglu.axis = swiglu.gate_up.axis = swiglu.down.axis = form.positions_axis
        elif isinstance(module, Level) and isinstance(getattr(module, "block_0", None), TokenMlpBlock):
            module.positions_first = form.positions_axis == 0
