"""Exponential moving average of the trained parameters, updated after every optimizer step.

It starts as a copy of the initial parameters and moves only inside a training step, so it stops with
training.
Source: the TRM paper and its published code.
"""

from __future__ import annotations

from typing import Any

import jax


def update_ema(average: Any, params: Any, rate: float) -> Any:
    """rate * average + (1 - rate) * params, leaf by leaf."""
    return jax.tree.map(lambda e, p: rate * e + (1.0 - rate) * p, average, params)
