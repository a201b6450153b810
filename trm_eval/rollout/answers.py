"""Ways to answer rows: with a fixed number of steps, with several samples, or until each row halts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from trm_data.kinds.registry import load_kind
from trm_eval.rollout.rows import Inferred, RowReader, Sampled, metrics_of, retention
from trm_eval.rollout.select import Selection, choices
from trm_train.mesh.sharding import batch_sharding, data_part, make_gather, put_batch
from trm_train.step.sample import Answers, Course
from trm_train.training.validate import Evaluate, evaluate_split


def answer_fixed(
    program: Evaluate, weights: Any, reader: RowReader, rows: NDArray[np.int64], mesh: Mesh
) -> Iterator[Inferred]:
    """Answer rows in order, batch by batch, and count wrong cells after every supervision step.

    Args:
        program: Compiled evaluation step, made with `by_step`.
        weights: Weights to evaluate.
        reader: Reader of the split.
        rows: Row numbers.
        mesh: Mesh that the batches are spread over.
    """
    for evaluated in evaluate_split(program, weights, reader, mesh, rows):
        outputs, count = evaluated.outputs, len(evaluated.rows)
        halting = np.asarray(outputs.q_halt_by_step)[:, :count] > 0
        steps = len(halting)
        yield Inferred(
            rows=evaluated.rows,
            predictions=reader.decode(np.asarray(outputs.predictions)[:count]),
            q_halt_logits=np.asarray(outputs.q_halt_logits)[:count],
            halt_steps=np.where(halting.any(axis=0), halting.argmax(axis=0) + 1, 0).astype(np.int32),
            steps=np.full(count, steps, np.int32),
            wrong_by_step=np.asarray(outputs.wrong_by_step)[:, :count],
            metrics={name: float(value) for name, value in outputs.metrics.items()},
            seconds=evaluated.seconds,
            spent=steps * count,
        )


def answer_sampled(
    program: Evaluate,
    weights: Any,
    reader: RowReader,
    rows: NDArray[np.int64],
    mesh: Mesh,
    *,
    supervision_steps: int,
    selection: Selection,
    depths: tuple[int, ...] = (),
) -> Iterator[Inferred]:
    """Answer rows in order with several samples, batch by batch, and choose one sample per row.

    Args:
        program: Compiled step of `trm_train.step.sample`.
        weights: Weights to evaluate.
        reader: Reader of the split.
        rows: Row numbers.
        mesh: Mesh that the batches are spread over.
        supervision_steps: Number of supervision steps per sample.
        selection: Rule that chooses one sample.
        depths: Supervision steps at which samples are also scored, as in the program.
    """
    for evaluated in evaluate_split(program, weights, reader, mesh, rows):
        count = len(evaluated.rows)
        answered, course = evaluated.outputs
        samples: Answers = jax.tree.map(lambda leaf, n=count: np.asarray(leaf)[:, :n], answered)
        tokens = reader.decode(samples.predictions)
        lawful = _lawful(reader, evaluated.rows, tokens) if selection == "rules" else None
        best = choices(selection, tokens, samples.margins, samples.halt_steps, samples.residuals, lawful)
        chosen, at = best[-1], np.arange(count)
        answer: Answers = jax.tree.map(lambda leaf, chosen=chosen, at=at: leaf[chosen, at], samples)
        right = (samples.wrong_cells == 0) & (samples.labelled_cells > 0)
        oracle = np.maximum.accumulate(right, axis=0)
        yield Inferred(
            rows=evaluated.rows,
            predictions=reader.decode(answer.predictions),
            q_halt_logits=answer.q_halt_logits,
            halt_steps=answer.halt_steps,
            steps=np.full(count, supervision_steps, np.int32),
            wrong_by_step=None,
            metrics=metrics_of(answer),
            seconds=evaluated.seconds,
            spent=supervision_steps * count * len(tokens),
            sampled=Sampled(
                chosen=chosen,
                oracle=oracle[-1],
                exact_by_samples=np.take_along_axis(right, best, axis=0).sum(axis=1),
                oracle_by_samples=oracle.sum(axis=1),
                **_of_course(course, samples.labelled_cells > 0, depths, selection, reader, evaluated.rows),
            ),
        )


def _lawful(reader: RowReader, rows: NDArray[np.int64], tokens: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return whether each of K answers [K, n, S] satisfies the rules of its puzzle, bool [K, n]."""
    manifest, inputs = reader.dataset.manifest, reader.dataset.read(rows)["inputs"].astype(np.uint8)
    kind = load_kind(manifest.kind)
    found = [kind.satisfies(manifest.spec, inputs, answers) for answers in tokens]
    assert all(each is not None for each in found), "prepare refuses kinds without rules"
    return np.stack([each for each in found if each is not None])


def _of_course(
    course: Course | None,
    labelled: NDArray[np.bool_],
    depths: tuple[int, ...],
    selection: Selection,
    reader: RowReader,
    rows: NDArray[np.int64],
) -> dict[str, Any]:
    """Return the fields of `Sampled` on the steps before the last."""
    if course is None:
        return {}
    count = len(rows)
    margins, residuals, wrong = (
        np.asarray(leaf)[..., :count] for leaf in (course.margins, course.residuals, course.wrong_cells)
    )
    right = (wrong == 0) & labelled[:, None]
    halting = margins > 0
    first = np.where(halting.any(axis=1), halting.argmax(axis=1) + 1, 0)
    exact: list[NDArray[np.int64]] = []
    oracle: list[NDArray[np.int64]] = []
    for index, depth in enumerate(depths):
        tokens = reader.decode(np.asarray(course.predictions)[:, index, :count])
        lawful = _lawful(reader, rows, tokens) if selection == "rules" else None
        halt_steps = np.where(first <= depth, first, 0).astype(np.int32)
        last = depth - 1
        best = choices(selection, tokens, margins[:, last], halt_steps, residuals[:, last], lawful)
        exact.append(np.take_along_axis(right[:, last], best, axis=0).sum(axis=1))
        oracle.append(np.maximum.accumulate(right[:, last], axis=0).sum(axis=1))
    return {"scaling": (np.stack(exact), np.stack(oracle)), "course": retention(right.swapaxes(0, 1))}


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
    """Answer rows, and yield them in order, as soon as all earlier rows have halted.

    Every process knows the row of each slot, and reads only the rows of its own slots.

    Args:
        program: Compiled step of `trm_train.step.sample`, called with weights, carry and batch.
        weights: Weights to evaluate.
        carry: Carry whose slots have all halted.
        reader: Reader of the split.
        rows: Row numbers.
        mesh: Mesh that the slots are spread over.
        slots: Number of rows computed at a time.
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
    """Answers that wait for earlier rows; few, because no row takes more than the maximum number of steps."""

    def __init__(self, count: int) -> None:
        self._count, self._first = count, 0
        self._places = np.zeros(0, np.int64)
        self._steps = np.zeros(0, np.int32)
        self._answers: Answers | None = None

    def add(self, places: NDArray[np.int64], steps: NDArray[np.int32], answers: Answers) -> None:
        """Add answers for the rows at these positions."""
        if self._answers is None:
            self._answers = answers
        else:
            self._answers = jax.tree.map(lambda a, b: np.concatenate([a, b]), self._answers, answers)
        self._places = np.concatenate([self._places, places])
        self._steps = np.concatenate([self._steps, steps])

    def ready(self) -> Iterator[tuple[int, int, NDArray[np.int32], Answers]]:
        """Yield the next answers in order: position of the first, count, steps and answers."""
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
