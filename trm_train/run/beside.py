"""What happens beside the steps of a run: metrics are noted, validations made."""

from __future__ import annotations

from typing import Any

import jax

from trm_train.run.start import Started
from trm_train.run.stop import StoppedError, StopRequest
from trm_train.run.validate import validate
from trm_train.state import TrainState, eval_weights


def validation_due(run: Started, step: int) -> bool:
    """Whether the validation split is to be evaluated after a step."""
    every = run.config.execution.validate_every
    return bool(run.validation) and step > 0 and (step == run.record.total_steps or step % every == 0)


def note_steps(run: Started, first: int, count: int, metrics: Any) -> None:
    """Fetch the metrics of the steps of a dispatch and note them."""
    fetched = jax.device_get(metrics)
    run.observer.pace.arrived(count)
    several = run.config.execution.steps_per_dispatch > 1
    for index in range(count):
        of_step = jax.tree.map(lambda value, at=index: value[at], fetched) if several else fetched
        run.observer.step(first + index, of_step)


def validate_now(run: Started, stop: StopRequest, state: TrainState, step: int) -> bool:
    """Evaluate the EMA weights on the validation split and note the result; False where the run was asked to stop.

    It is made up for by the start that goes on from there. Of a mixture every dataset is evaluated, and their sum too.
    """
    limit = run.config.execution.validation_examples

    def after_batch() -> None:
        run.observer.watchdog.beat()
        stop.agree()
        if stop.requested:
            raise StoppedError

    try:
        found = {
            name: validate(run.evaluate, eval_weights(state), split, run.mesh, limit=limit, beat=after_batch)
            for name, split in run.validation.items()
        }
    except StoppedError:
        return False
    every = list(found.values())
    total = {metric: sum(sums[metric] for sums in every) for metric in every[0]}
    run.observer.validated(step, total, found if run.config.data.is_mixture else {})
    return True
