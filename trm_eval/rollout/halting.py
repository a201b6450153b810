"""Every row until it halts, as in training: slots that are done are given the next rows, so none works for nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from trm_eval.rollout.inferred import Inferred, metrics_of
from trm_eval.rollout.rows import RowReader
from trm_train.mesh.sharding import batch_sharding, data_part, make_gather, put_batch
from trm_train.step.answers import Answers


def answer_halting(
    program: Any,
    weights: Any,
    carry: Any,
    reader: RowReader,
    rows: NDArray[np.int64],
    mesh: Mesh,
    *,
    slots: int,
) -> Iterator[Inferred]:
    """Answers of rows in order, as soon as all before them have halted.

    Every process knows which slot has which row, and reads those of its own slots.

    Args:
        program: A compiled step of `trm_train.step.halting`; it is called with weights, carry and batch.
        weights: What to evaluate.
        carry: Of slots that have all halted.
        reader: The split.
        rows: Which rows.
        mesh: Devices the slots are spread over.
        slots: Rows thought about at a time.
    """
    placed, gather, (part, parts) = batch_sharding(mesh), make_gather(mesh), data_part(mesh)
    local = slots // parts
    held = {
        name: np.zeros((local, *values.shape[1:]), values.dtype)
        for name, values in reader.read(rows[:1]).items()
    }
    working, steps = np.full(slots, -1), np.zeros(slots, np.int32)
    waiting, taken = _Waiting(len(rows)), 0
    begun, spent = time.perf_counter(), 0
    while True:
        free = np.flatnonzero(working < 0)[: len(rows) - taken]
        working[free], steps[free] = np.arange(taken, taken + len(free)), 0
        taken += len(free)
        busy = working >= 0
        if not busy.any():
            return
        mine = free[free // local == part]
        if len(mine):
            for name, values in reader.read(rows[working[mine]]).items():
                held[name][mine - part * local] = values
        carry, outputs = program(weights, carry, put_batch(held, placed))
        halted, found = jax.device_get(gather((carry.halted, outputs)))
        steps += 1
        spent += int(busy.sum())
        done = np.flatnonzero(halted & busy)
        waiting.add(working[done], steps[done], jax.tree.map(lambda leaf, done=done: leaf[done], found))
        working[done] = -1
        for first, count, spent_on, answers in waiting.ready():
            some = rows[first : first + count]
            now = time.perf_counter()
            yield Inferred(
                rows=some,
                predictions=reader.decode(answers.predictions),
                q_halt_logits=answers.q_halt_logits,
                halt_steps=answers.halt_steps,
                steps=spent_on,
                wrong_by_step=None,
                metrics=metrics_of(answers),
                seconds=now - begun,
                spent=spent,
            )
            begun, spent = time.perf_counter(), 0


class _Waiting:
    """Answers that came before those of earlier rows; few, since no row takes longer than the most steps."""

    def __init__(self, count: int) -> None:
        self._count, self._first = count, 0
        self._places = np.zeros(0, np.int64)
        self._steps = np.zeros(0, np.int32)
        self._answers: Answers | None = None

    def add(self, places: NDArray[np.int64], steps: NDArray[np.int32], answers: Answers) -> None:
        """Take answers of the rows at these places."""
        if self._answers is None:
            self._answers = answers
        else:
            self._answers = jax.tree.map(lambda a, b: np.concatenate([a, b]), self._answers, answers)
        self._places = np.concatenate([self._places, places])
        self._steps = np.concatenate([self._steps, steps])

    def ready(self) -> Iterator[tuple[int, int, NDArray[np.int32], Answers]]:
        """The answers that follow on those given out, in order: place of the first, count, steps and answers."""
        if self._answers is None or not len(self._places):
            return
        order = np.argsort(self._places)
        in_order = self._places[order] == np.arange(self._first, self._first + len(order))
        count = int(in_order.sum()) if in_order.all() else int(in_order.argmin())
        if not count:
            return
        now, later = order[:count], order[count:]
        yield self._first, count, self._steps[now], jax.tree.map(lambda leaf: leaf[now], self._answers)
        self._first += count
        self._answers = jax.tree.map(lambda leaf: leaf[later], self._answers)
        self._places, self._steps = self._places[later], self._steps[later]
