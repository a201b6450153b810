"""What an experiment costs, counted from its configuration: floating-point operations, and hours on known machines.

Counted are the matrix products, two operations a multiplication and addition; what else a step does is small beside
them. A training step of one example:

    level      num_layers blocks: the mixing over positions and the SwiGLU over the width
    forward    h_cycles * (l_cycles + 1) levels, and the output head
    backward   twice the forward of the last cycle, l_cycles + 1 levels, and of the output head
    again      the forward of the last cycle once more, where states are computed again
    further    a forward pass without output head, for the continue loss

Source of the counts: the shapes in `model/`; they agree with the 42.7 GFLOP of the published Sudoku recipe.
"""

from __future__ import annotations

from dataclasses import dataclass

from trm_train.config.model import ModelConfig, inner_width
from trm_train.config.run import InputSpec, RunConfig
from trm_train.errors import ConfigError


@dataclass(frozen=True)
class Machine:
    """A machine and what it reaches.

    Attributes:
        name: For people.
        peak_flops: Operations per second in matrix products, at most: of its data sheet, or measured.
        utilisation: Share of that a training step reaches.
        measured: Whether both were measured; else the share is assumed.
        source: Where the figures come from.
    """

    name: str
    peak_flops: float
    utilisation: float
    measured: bool
    source: str

    def hours(self, flops: float) -> float:
        """Time that so many operations take it (h)."""
        return flops / (self.peak_flops * self.utilisation) / 3600


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
"""Operations per second in dense matrix products in bfloat16, of one device, by what its kind contains (the first).

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
"""Memory of one device, by kind; of the A100 the smaller one. Source: the same."""

CPU = "2 CPU cores"
MACHINES = (
    Machine(
        "v4-64",
        32 * PEAK_FLOPS["TPU v4"],
        0.4,
        False,
        "32 chips of 275 TFLOP/s in bfloat16 (Google's figures)",
    ),
    Machine(
        "H200", PEAK_FLOPS["H200"], 0.4, False, "989 TFLOP/s in bfloat16 without sparsity (NVIDIA's figures)"
    ),
    Machine(
        CPU,
        1.69e11,
        0.84,
        True,
        "169 GFLOP/s in float32, a step of width 512 reaches 84% of it (docs/benchmarks.md); small networks reach less",
    ),
)
"""What hours are given for."""


@dataclass(frozen=True)
class Cost:
    """Floating-point operations of a run.

    Attributes:
        example_flops: Of one example and training step.
        evaluation_flops: Of one example evaluated, all supervision steps.
        training_flops: Of all steps.
    """

    example_flops: float
    evaluation_flops: float
    training_flops: float

    def hours(self, machine: Machine) -> float:
        """Training time on a machine (h)."""
        return machine.hours(self.training_flops)

    def testing_flops(
        self, config: RunConfig, validation_rows: int | None, test_rows: int | None
    ) -> float | None:
        """Operations of all validations and one whole test; None where the rows of a split are not known."""
        if validation_rows is None or test_rows is None:
            return None
        execution = config.execution
        rows = min(execution.validation_examples or validation_rows, validation_rows)
        validations = config.total_steps // execution.validate_every if execution.validate_every else 0
        return self.evaluation_flops * (test_rows + validations * rows)


def cost_of(config: RunConfig, spec: InputSpec) -> Cost:
    """What a run costs.

    Args:
        config: Of the run.
        spec: Of its dataset.

    Raises:
        ConfigError: Nothing is known of the network.
    """
    model = config.model
    examples, begun, training = config.data.global_batch_size, 0, 0.0
    for end, stage in model.stages(config.total_steps):
        training += (
            (end - begun) * examples * _training_flops(stage, spec, again=config.execution.rematerialise)
        )
        begun = end
    return Cost(
        example_flops=_training_flops(model, spec, again=config.execution.rematerialise),
        evaluation_flops=_network(model).halt_max_steps * _forward_flops(model, spec),
        training_flops=training,
    )


def flops_by_stage(config: RunConfig, spec: InputSpec) -> list[tuple[int, float]]:
    """The last step of each stage of training, and the operations of a step of it for a global batch.

    What is computed again to save memory does not count: it is no part of the model.

    Raises:
        ConfigError: Nothing is known of the network.
    """
    examples = config.data.global_batch_size
    return [
        (end, examples * _training_flops(stage, spec, again=False))
        for end, stage in config.model.stages(config.total_steps)
    ]


def parameters_of(model: object, spec: InputSpec) -> int:
    """Trained parameters of a network, the puzzle embedding aside."""
    network = _network(model)
    width, length = network.hidden_size, network.puzzle_positions + spec.sequence_length
    over_width = 3 * width * inner_width(width, network.expansion)
    mixing = (
        4 * width**2 if network.mixer == "attention" else 3 * length * inner_width(length, network.expansion)
    )
    positions = length * width if network.pos_encodings == "learned" else 0
    heads = width * spec.vocabulary_size + 2 * width + 2
    return network.num_layers * (over_width + mixing) + spec.vocabulary_size * width + positions + heads


def checkpoint_bytes(config: RunConfig, spec: InputSpec) -> tuple[int, int]:
    """Size of what evaluation needs of a checkpoint, and of what a resumed run needs.

    Returns:
        Raw and averaged parameters; with the optimizer's two moments and the carry (two states in the compute dtype).
    """
    network = _network(config.model)
    parameters = 4 * parameters_of(network, spec)
    positions = network.puzzle_positions + spec.sequence_length
    number = 4 if network.forward_dtype == "float32" else 2
    carry = config.data.global_batch_size * positions * network.hidden_size * 2 * number
    return 2 * parameters, 4 * parameters + carry


def level_flops(model: ModelConfig, spec: InputSpec) -> float:
    """Forward operations of one level for one example."""
    width, length = model.hidden_size, model.puzzle_positions + spec.sequence_length
    over_width = 6 * length * width * inner_width(width, model.expansion)
    if model.mixer == "mlp_t":
        mixing = 6 * width * length * inner_width(length, model.expansion)
    else:
        mixing = 8 * length * width**2 + 4 * length**2 * width
    return float(model.num_layers * (over_width + mixing))


def _training_flops(model: object, spec: InputSpec, *, again: bool) -> float:
    network = _network(model)
    last_cycle, head = (network.l_cycles + 1) * level_flops(network, spec), _head_flops(network, spec)
    further = 0.0 if network.no_act_continue else _forward_flops(network, spec) - head
    return _forward_flops(network, spec) + (3 if again else 2) * last_cycle + 2 * head + further


def _forward_flops(model: object, spec: InputSpec) -> float:
    network = _network(model)
    levels = network.h_cycles * (network.l_cycles + 1)
    return levels * level_flops(network, spec) + _head_flops(network, spec)


def _head_flops(model: ModelConfig, spec: InputSpec) -> float:
    return 2.0 * spec.sequence_length * model.hidden_size * spec.vocabulary_size


def _network(model: object) -> ModelConfig:
    if not isinstance(model, ModelConfig):
        raise ConfigError(f"model: no cost is known of {type(model).__name__}")
    return model
