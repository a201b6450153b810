"""Rollouts of an evaluation: rows, the ways to answer them, and the selection among samples.

Rows are answered with a fixed number of steps, with several samples, or until each row halts. Selection is a pure
function of the samples, without labels. Ties go to the earlier sample, so the choice among the first k samples never
depends on later ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import jax
import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from trm_data.kinds.registry import load_kind
from trm_data.loader.component import Component
from trm_data.loader.dataset import Dataset
from trm_data.loader.rows import Batch
from trm_train.mesh import batch_sharding, data_part, make_gather, put_batch
from trm_train.step.sample import Answers, Course
from trm_train.training.validate import Evaluate, evaluate_split

Identifiers = Literal["own", "blank", "random"]


def choose_rows(count: int, limit: int, seed: int | None) -> NDArray[np.int64]:
    """Return row numbers of a split, in order: all, the first `limit`, or `limit` rows drawn by a seed.

    A larger draw with the same seed contains the smaller one.
    """
    if not limit or limit >= count:
        return np.arange(count, dtype=np.int64)
    if seed is None:
        return np.arange(limit, dtype=np.int64)
    return np.sort(np.random.default_rng(seed).permutation(count)[:limit]).astype(np.int64)


@dataclass(frozen=True)
class RowReader:
    """Reader of a split whose batches include row numbers (`row`, int32 [n]), with its own or other identifiers.

    Batches are in the encoding of the network; for a mixture, they are padded and shifted by the dataset's offsets.

    Attributes:
        dataset: Split to read.
        identifiers: `own`; `blank`, identifier 0 for all; or `random`, a random identifier for each row.
        num_identifiers: Number of possible identifiers, the blank one included.
        component: The dataset's component in the mixture that the network learned; None if it learned one dataset.
        sequence_length: Number of cells in the mixture's rows.
    """

    dataset: Dataset
    identifiers: Identifiers
    num_identifiers: int
    component: Component | None = None
    sequence_length: int = 0

    def __len__(self) -> int:
        return len(self.dataset)

    def read(self, rows: NDArray[np.int64]) -> Batch:
        """Read the rows with these numbers as a batch."""
        batch = {**self.dataset.read(rows), "row": rows.astype(np.int32)}
        if self.identifiers == "blank":
            batch["puzzle_identifiers"] = np.zeros(len(rows), np.int32)
        elif self.identifiers == "random" and self.num_identifiers > 1:
            batch["puzzle_identifiers"] = self._random[rows]
        return batch if self.component is None else self.component.encode(batch, self.sequence_length)

    def decode(self, tokens: NDArray[np.integer]) -> NDArray[np.uint8]:
        """Convert the network's tokens [..., S] to the dataset's own tokens and cells."""
        return tokens.astype(np.uint8) if self.component is None else self.component.decode(tokens)

    @cached_property
    def _random(self) -> NDArray[np.int32]:
        """A random identifier for every row, always the same."""
        return np.random.default_rng(0).integers(1, self.num_identifiers, len(self.dataset), np.int32)

    def shapes(self, size: int, placed: jax.sharding.Sharding) -> dict[str, jax.ShapeDtypeStruct]:
        """Return shapes, types and shardings of a batch of this size, with its `weight`."""
        some = {**self.read(np.zeros(1, np.int64)), "weight": np.ones(1, bool)}
        return {
            name: jax.ShapeDtypeStruct((size, *values.shape[1:]), values.dtype, sharding=placed)
            for name, values in some.items()
        }


@dataclass(frozen=True)
class Sampled:
    """Additional results of sampling, for K samples and n rows.

    Attributes:
        chosen: Number of the chosen sample, from 0, int32 [n].
        oracle: Whether any sample is exact, bool [n].
        exact_by_samples: Number of rows whose answer, chosen among the first 1, 2, ... K samples, is exact, int64 [K].
        oracle_by_samples: Number of rows with an exact answer among the first 1, 2, ... K samples, int64 [K].
        scaling: The previous two after each of D numbers of steps, int64 [D, K] each; None if not requested.
        course: Counts of answers (of rows and samples) after every step: correct now, correct at some step so far, and
            lost again; int64 [steps] each. None if not requested.
    """

    chosen: NDArray[np.int32]
    oracle: NDArray[np.bool_]
    exact_by_samples: NDArray[np.int64]
    oracle_by_samples: NDArray[np.int64]
    scaling: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    course: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]] | None = None


def retention(right: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return counts for answers that are correct after each step, bool [steps, ...]: now, so far, and lost again.

    Each is int64 [steps].
    """
    ever = np.maximum.accumulate(right, axis=0)
    others = tuple(range(1, right.ndim))
    return right.sum(axis=others), ever.sum(axis=others), (ever & ~right).sum(axis=others)


@dataclass(frozen=True)
class Inferred:
    """Predictions for n rows of a split, with S cells.

    Attributes:
        rows: Row numbers in the split, in order, int64 [n].
        predictions: Tokens, uint8 [n, S].
        q_halt_logits: Halting logits after the last supervision step, float32 [n].
        halt_steps: First supervision step with a halting logit above 0, int32 [n]; 0 if none.
        steps: Number of supervision steps spent on the answer, int32 [n].
        wrong_by_step: Number of wrong labelled cells after every supervision step, int32 [steps, n]; None if rows have
            different numbers of steps or several samples.
        metrics: Sums over the rows, as `trm_train.step.think` defines them.
        seconds: Wall-clock time for these rows (s).
        spent: Total number of supervision steps for these rows, samples included.
        sampled: Additional results of sampling; None without sampling.
    """

    rows: NDArray[np.int64]
    predictions: NDArray[np.uint8]
    q_halt_logits: NDArray[np.float32]
    halt_steps: NDArray[np.int32]
    steps: NDArray[np.int32]
    wrong_by_step: NDArray[np.int32] | None
    metrics: dict[str, float]
    seconds: float
    spent: int
    sampled: Sampled | None = None


def metrics_of(answers: Answers) -> dict[str, float]:
    """Return metric sums over the rows with labels."""
    labelled, right = answers.labelled_cells > 0, answers.wrong_cells == 0
    return {
        "count": int(labelled.sum()),
        "exact_accuracy": int((right & labelled).sum()),
        "q_halt_accuracy": int((((answers.q_halt_logits >= 0) == right) & labelled).sum()),
        "lm_loss": float(answers.lm_loss[labelled].sum(dtype=np.float64)),
    }


Selection = Literal["halt_logit", "mode", "first_halt", "residual", "rules"]
SELECTIONS: tuple[Selection, ...] = get_args(Selection)


def choices(
    selection: Selection,
    predictions: NDArray[np.uint8],
    margins: NDArray[np.float32],
    halt_steps: NDArray[np.int32],
    residuals: NDArray[np.float32] | None = None,
    lawful: NDArray[np.bool_] | None = None,
) -> NDArray[np.int32]:
    """Return the sample chosen among the first 1, 2, ... K, int32 [K, n]; the last row is the choice among all.

    Args:
        selection: `halt_logit`, the most confident sample; `mode`, the most frequent answer (tie: the one with the most
            confident sample); `first_halt`, the sample that would halt first (tie, or if none halts: the most
            confident); `residual`, the one whose answer state changed least in the last step; `rules`, an answer that
            satisfies the puzzle's rules (tie, or if none does: the most confident).
        predictions: Tokens of K samples of n rows, uint8 [K, n, S].
        margins: Halting margin (confidence) of each sample, float32 [K, n].
        halt_steps: First supervision step at which each would have halted, int32 [K, n]; 0 for never.
        residuals: Change of the answer state in the last step, float32 [K, n]; for `residual`.
        lawful: Whether each answer satisfies the puzzle's rules, bool [K, n]; for `rules`.
    """
    if selection == "residual":
        assert residuals is not None
        return _first_best(-residuals, margins)
    if selection == "rules":
        assert lawful is not None
        return _first_best(lawful, margins)
    if selection == "halt_logit":
        return _first_best(margins, margins)
    if selection == "first_halt":
        never = np.iinfo(np.int32).max
        return _first_best(-np.where(halt_steps > 0, halt_steps, never).astype(np.int64), margins)
    return _modes(predictions, margins)


def _first_best(first: NDArray, second: NDArray) -> NDArray[np.int32]:
    """Return the best sample so far by two criteria, int32 [K, n]."""
    best = np.zeros(first.shape, np.int32)
    at = np.arange(first.shape[1])
    for k in range(1, len(first)):
        held = best[k - 1]
        better = (first[k] > first[held, at]) | (
            (first[k] == first[held, at]) & (second[k] > second[held, at])
        )
        best[k] = np.where(better, k, held)
    return best


def _modes(predictions: NDArray[np.uint8], margins: NDArray[np.float32]) -> NDArray[np.int32]:
    """Return the most confident sample of the most frequent answer so far, int32 [K, n]."""
    samples, rows = margins.shape
    same = np.empty((samples, rows), np.int32)  # first sample with the same answer
    for row in range(rows):
        seen: dict[bytes, int] = {}
        same[:, row] = [seen.setdefault(predictions[k, row].tobytes(), k) for k in range(samples)]
    at = np.arange(rows)
    votes, surest = np.zeros((samples, rows), np.int32), np.zeros((samples, rows), np.int32)
    leader, best = np.zeros(rows, np.int32), np.zeros((samples, rows), np.int32)
    for k in range(samples):
        answer = same[k]
        new = votes[answer, at] == 0
        votes[answer, at] += 1
        surer = new | (margins[k] > margins[surest[answer, at], at])
        surest[answer, at] = np.where(surer, k, surest[answer, at])
        mine, led = votes[answer, at], votes[leader, at]
        sure, led_sure = margins[surest[answer, at], at], margins[surest[leader, at], at]
        leads = (k == 0) | (mine > led) | ((mine == led) & (sure > led_sure))
        leader = np.where(leads, answer, leader)
        best[k] = surest[leader, at]
    return best


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

    Few answers wait for earlier rows, because no row takes more than the maximum number of steps.
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
    waiting: dict[int, tuple[int, Answers]] = {}
    first = taken = 0
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
        for slot in np.flatnonzero(halted & busy):
            waiting[working[slot]] = steps[slot], jax.tree.map(lambda leaf, slot=slot: leaf[slot], found)
            working[slot] = -1
        ready: list[tuple[int, Answers]] = []
        while first + len(ready) in waiting:
            ready.append(waiting.pop(first + len(ready)))
        if not ready:
            continue
        answers: Answers = jax.tree.map(lambda *leaves: np.stack(leaves), *(answer for _, answer in ready))
        now = time.perf_counter()
        yield Inferred(
            rows=rows[first : first + len(ready)],
            predictions=reader.decode(answers.predictions),
            q_halt_logits=answers.q_halt_logits,
            halt_steps=answers.halt_steps,
            steps=np.array([count for count, _ in ready], np.int32),
            wrong_by_step=None,
            metrics=metrics_of(answers),
            seconds=now - begun,
            spent=spent,
        )
        first += len(ready)
        begun, spent = time.perf_counter(), 0
