"""Every row until it halts, as in training: slots that are done are given the next rows, so none works for nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from trm_data.encode.vocab import PAD
from trm_data.loader.rows import Batch
from trm_eval.rollout.inferred import Inferred, metrics_of
from trm_eval.rollout.rows import RowReader
from trm_train.mesh.sharding import batch_sharding, put_batch
from trm_train.step.answers import Answers

READ_AHEAD = 4_096
"""Rows read at once."""


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

    Args:
        program: A compiled step of `trm_train.step.halting`; it is called with weights, carry and batch.
        weights: What to evaluate.
        carry: Of slots that have all halted.
        reader: The split.
        rows: Which rows.
        mesh: Devices the slots are spread over.
        slots: Rows thought about at a time.
    """
    feed, placed = _Feed(reader, rows), batch_sharding(mesh)
    held = {
        name: np.zeros((slots, *values.shape[1:]), values.dtype) for name, values in feed.first(1).items()
    }
    working, steps = np.full(slots, -1), np.zeros(slots, np.int32)
    waiting = _Waiting(len(rows))
    begun, spent = time.perf_counter(), 0
    while True:
        free = np.flatnonzero(working < 0)
        taken, batch = feed.take(len(free))
        for name, values in batch.items():
            held[name][free[: len(taken)]] = values
        working[free[: len(taken)]], steps[free] = taken, 0
        busy = working >= 0
        if not busy.any():
            return
        carry, outputs = program(weights, carry, put_batch(held, placed))
        halted, found = jax.device_get((carry.halted, outputs))
        steps += 1
        spent += int(busy.sum())
        done = np.flatnonzero(halted & busy)
        waiting.add(working[done], steps[done], jax.tree.map(lambda leaf, done=done: leaf[done], found))
        working[done] = -1
        for first, count, spent_on, answers in waiting.ready():
            some = rows[first : first + count]
            labelled = (reader.dataset.read(some)["labels"] != PAD).any(axis=1)
            now = time.perf_counter()
            yield Inferred(
                rows=some,
                predictions=answers.predictions.astype(np.uint8),
                q_halt_logits=answers.q_halt_logits,
                halt_steps=answers.halt_steps,
                steps=spent_on,
                wrong_by_step=None,
                metrics=metrics_of(answers, labelled),
                seconds=now - begun,
                spent=spent,
            )
            begun, spent = time.perf_counter(), 0


class _Feed:
    """Rows of a split in order, as many at a time as slots are free, read in blocks."""

    def __init__(self, reader: RowReader, rows: NDArray[np.int64]) -> None:
        self._reader, self._rows = reader, rows
        self._next = self._begin = self._end = 0
        self._block: Batch = {}

    def first(self, count: int) -> Batch:
        """A batch of the first rows, for its shapes."""
        return self._reader.read(self._rows[:count])

    def take(self, count: int) -> tuple[NDArray[np.int64], Batch]:
        """Places of the next rows among those chosen, and the rows: `count` of them, or what is left."""
        begin, end = self._next, min(self._next + count, len(self._rows))
        if end > self._end:
            self._begin, self._end = begin, min(max(begin + READ_AHEAD, end), len(self._rows))
            self._block = self._reader.read(self._rows[self._begin : self._end])
        self._next = end
        at = slice(begin - self._begin, end - self._begin)
        return np.arange(begin, end), {name: values[at] for name, values in self._block.items()}


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
