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
    return run.validation is not None and step > 0 and (step == run.record.total_steps or step % every == 0)


def note_steps(run: Started, first: int, count: int, metrics: Any) -> None:
    """Fetch the metrics of the steps of a dispatch and note them."""
    fetched = jax.device_get(metrics)
    run.observer.pace.arrived(count)
    for index in range(count):
        of_step = {name: value[index] if value.ndim else value for name, value in fetched.items()}
        run.observer.step(first + index, of_step)


def validate_now(run: Started, stop: StopRequest, state: TrainState, step: int) -> bool:
    """Evaluate the EMA weights on the validation split and note the result; False where the run was asked to stop.

    It is made up for by the start that goes on from there.
    """
    assert run.validation is not None
    limit = run.config.execution.validation_examples

    def after_batch() -> None:
        run.observer.watchdog.beat()
        stop.agree()
        if stop.requested:
            raise StoppedError

    try:
        sums = validate(
            run.evaluate, eval_weights(state), run.validation, run.mesh, limit=limit, beat=after_batch
        )
    except StoppedError:
        return False
    run.observer.validated(step, sums)
    return True
