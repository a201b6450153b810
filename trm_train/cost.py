"""Cost of a run: parameters and floating-point operations.

Parameters are counted from the network's shapes. Operations come from `Network.flops`: matrix products only, with a
multiplication and an addition as two operations; the rest of a step is small. A training step of one example:

    forward    `think` and the answers
    backward   twice the part of `think` that gradient flows through, and twice the answers
    again      that part once more, if states are recomputed
    further    `think` once more, for the continue loss

They agree with the 42.7 GFLOP of the published Sudoku recipe. jax is imported only to count a network.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from trm_train.config.model import NetworkConfig
from trm_train.config.run import InputSpec, RunConfig

if TYPE_CHECKING:
    from trm_train.model.base import Flops


PEAK_FLOPS = {
    "TPU v4": 275e12,
    "TPU v5 lite": 197e12,
    "TPU v5p": 459e12,
    "TPU v5": 459e12,
    "TPU v6 lite": 918e12,
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100": 989e12,
    "A100": 312e12,
}
"""Dense matrix-product speed of one device in bfloat16 (FLOP/s). The first key contained in the device kind applies.

Source: Google's and NVIDIA's data sheets.
"""
DEVICE_BYTES = {
    "TPU v4": 32 * 2**30,
    "TPU v5 lite": 16 * 2**30,
    "TPU v5p": 95 * 2**30,
    "TPU v5": 95 * 2**30,
    "TPU v6 lite": 32 * 2**30,
    "H200": 141 * 10**9,
    "H100 PCIe": 80 * 10**9,
    "H100": 80 * 10**9,
    "A100": 40 * 10**9,
}
"""Memory of one device, by kind (bytes); for the A100, of the smaller model. Source: the same."""


@dataclass(frozen=True)
class Cost:
    """Floating-point operations of a run.

    Attributes:
        example_flops: Operations of one example in one training step.
        evaluation_flops: Operations of evaluating one example, all supervision steps.
        training_flops: Operations of all training steps.
    """

    example_flops: float
    evaluation_flops: float
    training_flops: float

    def testing_flops(
        self, config: RunConfig, validation_rows: int | None, test_rows: int | None
    ) -> float | None:
        """Return the operations of all validations and one test; None if the number of rows of a split is unknown."""
        if validation_rows is None or test_rows is None:
            return None
        execution = config.execution
        rows = min(execution.validation_examples or validation_rows, validation_rows)
        validations = config.total_steps // execution.validate_every if execution.validate_every else 0
        return self.evaluation_flops * (test_rows + validations * rows)


@dataclass(frozen=True)
class Counted:
    """Counts of a network.

    Attributes:
        parameters: Number of trained parameters, without the puzzle embedding.
        flops: Operations of one example in one supervision step; None if the network does not count them.
        continue_loss: Whether training computes one more `think` for the continue loss.
        state_bytes: Size of one slot's states (bytes).
    """

    parameters: int
    flops: Flops | None
    continue_loss: bool
    state_bytes: int


@lru_cache(1024)
def count_network(model: NetworkConfig, spec: InputSpec) -> Counted:
    """Count a network from its shapes; nothing is drawn or allocated, and no device is used."""
    import jax
    from flax import nnx

    from trm_train.model.base import Network, split
    from trm_train.model.networks import make_network

    made: list[Network] = []
    said: list[Flops | None] = []

    def shapes() -> tuple[object, object]:
        network = make_network(model, spec, rngs=nnx.Rngs(params=0, latents=0))
        made.append(network)
        said.append(network.flops())
        return split(network)[1], network.initial_states(1)

    params, states = map(jax.tree.leaves, jax.eval_shape(shapes))
    return Counted(
        parameters=sum(leaf.size for leaf in params),
        flops=said[0],
        continue_loss=made[0].continue_loss,
        state_bytes=sum(leaf.size * leaf.dtype.itemsize for leaf in states),
    )


def cost_of(config: RunConfig, spec: InputSpec) -> Cost | None:
    """Return the cost of a run; None if its network does not count its operations.

    Args:
        config: Configuration of the run.
        spec: Input sizes of its dataset.
    """
    again = config.execution.rematerialise
    stages = _training_flops(config, spec, again=again)
    flops = count_network(config.model, spec).flops
    if stages is None or flops is None:
        return None
    examples, begun, training = config.data.global_batch_size, 0, 0.0
    for end, of_example in stages:
        training += (end - begun) * examples * of_example
        begun = end
    return Cost(
        example_flops=_example_flops(config.model, spec, again=again) or 0.0,
        evaluation_flops=config.model.halt_max_steps * (flops.think + flops.answers),
        training_flops=training,
    )


def flops_by_stage(config: RunConfig, spec: InputSpec) -> list[tuple[int, float]] | None:
    """Return the last step of each training stage, and the operations of one of its steps for a global batch.

    Recomputation that saves memory does not count, because it is not part of the model. None if the network does not
    count its operations.
    """
    stages = _training_flops(config, spec, again=False)
    return None if stages is None else [(end, config.data.global_batch_size * one) for end, one in stages]


def parameters_of(model: NetworkConfig, spec: InputSpec) -> int:
    """Return the number of trained parameters of a network, without the puzzle embedding."""
    return count_network(model, spec).parameters


def checkpoint_bytes(config: RunConfig, spec: InputSpec) -> tuple[int, int]:
    """Return the size of a checkpoint's weights, and of its resume state.

    Returns:
        Size of raw and averaged parameters; size of these with the optimizer's two moments and the carry.
    """
    network = count_network(config.model, spec)
    parameters = 4 * network.parameters
    return 2 * parameters, 4 * parameters + config.data.global_batch_size * network.state_bytes


def _training_flops(config: RunConfig, spec: InputSpec, *, again: bool) -> list[tuple[int, float]] | None:
    """Return the last step of each training stage, and the operations of one example in one of its steps."""
    found: list[tuple[int, float]] = []
    for end, stage in config.model.stages(config.total_steps):
        of_example = _example_flops(stage, spec, again=again)
        if of_example is None:
            return None
        found.append((end, of_example))
    return found


def _example_flops(model: NetworkConfig, spec: InputSpec, *, again: bool) -> float | None:
    """Return the operations of one example in one training step."""
    network = count_network(model, spec)
    flops = network.flops
    if flops is None:
        return None
    further = flops.think if network.continue_loss else 0.0
    return flops.think + flops.answers + (3 if again else 2) * flops.gradient + 2 * flops.answers + further
