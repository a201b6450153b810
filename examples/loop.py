"""A training loop that can be read and changed: the same losses as `trm-train run quickstart`.

    python examples/loop.py                        # 1,500 steps of the quickstart, about 3 minutes on two cores
    python examples/loop.py --steps 50 --dataset mine6

The command adds checkpoints, resuming, metrics on disk, several hosts and tracking around this loop. Copy the file and
change what you study: the network, the loss, the optimizer, or what a step returns.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

import jax
import numpy as np

import trm_data
from trm_train.config.run import InputSpec, RunConfig
from trm_train.experiments.registry import find_experiment
from trm_train.state import eval_weights, init_state
from trm_train.step.evaluate import make_eval_step
from trm_train.step.train import make_train_step


def configure(experiment: str, dataset: str | None, steps: int | None) -> RunConfig:
    """The configuration of an experiment, with another dataset or number of steps."""
    config = find_experiment(experiment).make()
    if dataset is not None:
        config = replace(config, data=replace(config.data, dataset=dataset))
    return config if steps is None else replace(config, total_steps=steps)


def train(config: RunConfig, root: str | None = None) -> Iterator[tuple[int, dict[str, float]]]:
    """Train and yield step and metrics; the last item has the rates of the validation split, with EMA weights."""
    train_split = trm_data.open_dataset(config.data.only_dataset(), root, "train")
    spec = InputSpec(
        sequence_length=train_split.sequence_length,
        vocabulary_size=train_split.manifest.vocabulary_size,
        num_identifiers=train_split.manifest.num_identifiers,
    )
    batch_size = config.data.global_batch_size
    # The state is one pytree: parameters, optimizer, EMA, puzzle embeddings, carry, step and random key.
    network, state = init_state(config, spec, batch_size)
    step = jax.jit(make_train_step(config, spec, network), donate_argnums=0)
    with trm_data.make_loader(train_split, global_batch_size=batch_size, seed=config.seed) as batches:
        for number in range(1, config.total_steps + 1):
            state, sums = step(state, next(batches))
            yield number, rates(jax.device_get(sums), batch_size)

    evaluate = jax.jit(make_eval_step(config, spec, network))
    total: dict[str, float] = {}
    for batch in trm_data.epoch(trm_data.open_dataset(train_split.name, root, "validation"), batch_size):
        sums = jax.device_get(evaluate(eval_weights(state), batch).metrics)
        total = {name: total.get(name, 0.0) + value for name, value in sums.items()}
    yield config.total_steps, rates(total, total["count"])


def rates(sums: dict[str, float], slots: float) -> dict[str, float]:
    """Metrics are sums: losses are over all slots, the others over the slots that finished an example."""
    count = float(sums["count"]) or np.nan
    losses = {name: float(sums[name]) / slots for name in ("lm_loss", "q_halt_loss")}
    return losses | {name: float(sums[name]) / count for name in ("accuracy", "exact_accuracy", "steps")}


def main() -> None:
    """Train and print the metrics of every 100th step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--experiment", default="quickstart")
    parser.add_argument("--dataset", help="name of a built dataset (default: the experiment's own)")
    parser.add_argument("--steps", type=int, help="training steps (default: the experiment's own)")
    parser.add_argument("--root", help="folder of everything (default: $TRM_ROOT, else ./trm)")
    options = parser.parse_args()
    config = configure(options.experiment, options.dataset, options.steps)
    every = max(config.total_steps // 15, 1)
    for index, (number, metrics) in enumerate(train(config, options.root)):
        if number % every == 0 or number == config.total_steps:
            shown = "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())
            print(f"{'validation' if index == config.total_steps else f'step {number:,}'}  {shown}")


if __name__ == "__main__":
    main()
