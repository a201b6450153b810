"""A trained run that answers puzzles: in three lines of Python, and for `trm-eval predict`.

import trm_eval
solver = trm_eval.load("quickstart")
print(solver.solve("..2....3.45..4........6...51.......3").text())
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from trm_data.encode import PAD
from trm_data.errors import SourceError, SpecError
from trm_data.kinds.base import Answer, Kind, Scores
from trm_data.kinds.registry import load_kind
from trm_data.loader.component import Component
from trm_data.loader.dataset import open_dataset
from trm_data.loader.rows import Batch
from trm_data.manifest import read_manifest
from trm_data.show.drawing import Drawing
from trm_data.sources.base import LocalSource, guess_kind, standard_input
from trm_data.specs import DatasetSpec, SourceSpec
from trm_data.storage.root import Layout, Root, resolve_root
from trm_eval.errors import EvalError
from trm_eval.evaluation.prepare import choose_step
from trm_eval.infer import LoadedNetwork, restore
from trm_train.config.run import InputSpec
from trm_train.mesh import batch_sharding, put_batch
from trm_train.runs.record import find_run, read_record
from trm_train.step.compile import use_compilation_cache
from trm_train.step.evaluate import Trace, make_trace_step

MOST = 1_000
"""Maximum number of puzzles in a file; larger files require a dataset."""


@dataclass(frozen=True, repr=False)
class Solution:
    """Answer of a network to one puzzle, over T supervision steps of C cycles each.

    Attributes:
        puzzle: Tokens, uint8 [S].
        answer: Tokens after the last supervision step, uint8 [S].
        answers: Tokens after every cycle, uint8 [T, C, S].
        halt_logits: Logits after every cycle, float32 [T, C]; training halts if the last one of a step is above 0.
        halt_step: First supervision step at which it would have halted; None if never.
        scores: Result of checking the answer by the rules of the kind.
        known: Result of a solver for the puzzle.
    """

    puzzle: NDArray[np.uint8]
    answer: NDArray[np.uint8]
    answers: NDArray[np.uint8]
    halt_logits: NDArray[np.float32]
    halt_step: int | None
    scores: Scores
    known: Answer
    _kind: Kind
    _spec: DatasetSpec

    def __repr__(self) -> str:
        halts = "never" if self.halt_step is None else f"after step {self.halt_step}"
        rules = {None: "", True: ", legal", False: ", not legal"}[self.legal]
        return f"Solution({len(self.answers)} steps, halts {halts}{rules}, {self.halt_probability:.2f} sure)"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the puzzle, and the answer after every supervision step."""
        from trm_data.show.picture import svg_row

        steps = [
            (f"answer, step {number}", self.draw(answers[-1]))
            for number, answers in enumerate(self.answers, 1)
        ]
        return svg_row([("given", self.draw_puzzle()), *steps])

    @property
    def halt_probability(self) -> float:
        """Probability of halting, the network's confidence in its answer (0 to 1)."""
        return float(1 / (1 + np.exp(-np.float64(self.halt_logits[-1, -1]))))

    @property
    def legal(self) -> bool | None:
        """Whether the answer satisfies the rules of the puzzle; None if the kind cannot check it."""
        return None if self.scores.valid is None else bool(self.scores.valid[0])

    @property
    def solution(self) -> NDArray[np.uint8] | None:
        """Tokens of the unique solution, uint8 [S]; None if there are none or several, or no solver."""
        return self.known.tokens if self.known.count == 1 else None

    def draw(
        self, tokens: NDArray[np.uint8] | None = None, before: NDArray[np.uint8] | None = None
    ) -> Drawing:
        """Draw the answer, or other tokens [S], with its answered and wrong cells.

        Args:
            tokens: Another answer; None for the last one.
            before: An earlier answer; changed cells are marked too.
        """
        tokens = self.answer if tokens is None else tokens
        geometry = self._kind.geometry(self._spec)
        solution = self.solution
        return self._kind.draw(tokens, self._spec).compare(
            (geometry.grid_rows, geometry.grid_columns),
            tokens,
            self.puzzle,
            wrong=None if solution is None or self.legal else tokens != solution,
            before=before,
        )

    def draw_puzzle(self) -> Drawing:
        """Draw the puzzle."""
        return self._kind.draw(self.puzzle, self._spec)

    def draw_solution(self) -> Drawing | None:
        """Draw the unique solution; return None if it is unknown or the answer is legal."""
        if self.solution is None or self.legal:
            return None
        return self._kind.draw(self.solution, self._spec)

    def text(self) -> str:
        """Return the answer as plain text."""
        return self.draw().text()


class Solver:
    """Answers puzzles of the kind that a run learned; the program is compiled once per number of puzzles.

    Attributes:
        run: Name of the run.
        dataset: Dataset whose puzzles it answers: that of the run, or one of its mixture.
        step: Training step of its checkpoint.
        supervision_steps: Number of supervision steps per puzzle.
    """

    def __init__(
        self,
        restored: LoadedNetwork,
        kind: Kind,
        spec: DatasetSpec,
        *,
        step: int,
        supervision_steps: int,
        component: Component | None = None,
    ) -> None:
        self.run = restored.record.run
        self.dataset = restored.record.config.data.only_dataset() if component is None else component.dataset
        self._component = component
        self.step = step
        self.supervision_steps = supervision_steps
        self._restored, self._kind, self._spec = restored, kind, spec
        self._programs: dict[int, Any] = {}

    def parse(self, text: str) -> NDArray[np.uint8]:
        """Parse a puzzle given as text into tokens [S].

        Raises:
            EvalError: The text is not a puzzle of this kind.
        """
        try:
            return self._kind.parse(text, self._spec)
        except ValueError as error:
            raise EvalError(f"the puzzle: {error}") from error

    def read(self, path: str | os.PathLike[str], *, columns: str = "") -> list[NDArray[np.uint8]]:
        """Read the tokens [S] of each puzzle in a file, in any format that a build reads (docs/datasets.md).

        Args:
            path: The file; `-` is standard input.
            columns: Columns with other than default names, such as `question=NAME`.

        Raises:
            EvalError: The file cannot be read, contains no puzzle, or contains an invalid puzzle.
        """
        shown = os.fspath(path)
        spec = SourceSpec(kind="txt", columns=columns, symbols=self._spec.source.symbols)
        try:
            if shown == "-":
                with standard_input(spec) as source:
                    found = self._read(source)
            else:
                file = Path(shown).expanduser()
                if not file.is_file():
                    why = "it is a folder; name a file in it" if file.is_dir() else "no such file"
                    raise SourceError(f"{shown}: cannot be read ({why})")
                kind = guess_kind(shown, columns) or "txt"
                found = self._read(LocalSource(replace(spec, kind=cast(Any, kind)), shown, file))
        except (SourceError, SpecError, OSError) as error:
            raise EvalError(str(error)) from error
        if not found:
            raise EvalError(f"{shown}: holds no puzzle")
        if len(found) > MOST:
            raise EvalError(
                f"{shown}: {len(found):,} puzzles, at most {MOST:,} are answered so; build a dataset of them "
                "(trm-data build --source) and give it to trm-eval run --dataset"
            )
        return found

    def _read(self, source: LocalSource) -> list[NDArray[np.uint8]]:
        read = self._kind.read_file(source, self._spec)
        if read is not None:
            tokens, rejects = read
            if rejects:
                first, wrong = rejects[0], len(rejects)
                more = f" ({wrong:,} of {wrong + len(tokens):,} are wrong)" if wrong > 1 else ""
                raise SourceError(f"{first.file}:{first.line}: {first.reason}{more}")
            return list(tokens)
        with source.open_text() as text:
            whole = text.read()
        with suppress(ValueError, SourceError):  # several puzzles, one in each line
            return [self._kind.parse(whole, self._spec)]
        found: list[NDArray[np.uint8]] = []
        for number, one in enumerate(filter(str.strip, whole.splitlines()), start=1):
            try:
                found.append(self._kind.parse(one, self._spec))
            except (ValueError, SourceError) as error:
                raise SourceError(f"{source.shown}: puzzle {number}: {error}") from error
        return found

    def solve(self, puzzle: str | ArrayLike, *, identifier: int = 0) -> Solution:
        """Answer one puzzle.

        Args:
            puzzle: Text, or tokens [S] as in the rows of a dataset.
            identifier: Puzzle identifier; 0 is the blank one.

        Raises:
            EvalError: The network cannot read the puzzle.
        """
        return self.solve_all([puzzle], identifiers=[identifier])[0]

    def solve_all(
        self, puzzles: Sequence[str | ArrayLike], *, identifiers: Sequence[int] | None = None
    ) -> list[Solution]:
        """Answer several puzzles at once; see `solve`."""
        if not puzzles:
            return []
        inputs = np.stack([self._tokens(puzzle) for puzzle in puzzles])
        ids = np.zeros(len(inputs), np.int32) if identifiers is None else np.array(identifiers, np.int32)
        named = self._own.num_identifiers
        if len(ids) != len(inputs) or ids.min() < 0 or ids.max() >= named:
            raise EvalError(
                f"identifiers: got {ids.tolist()}; expected one from 0 to {named - 1} for each puzzle"
            )
        trace = self._trace(inputs, ids)
        known = [self._kind.answer(tokens, self._spec) for tokens in inputs]
        labels = [np.zeros_like(inputs[0]) if each.tokens is None else each.tokens for each in known]
        answers = trace.predictions[-1, -1]
        margins = trace.margins[:, -1] > 0
        return [
            Solution(
                puzzle=inputs[i],
                answer=answers[i],
                answers=trace.predictions[:, :, i],
                halt_logits=trace.q_halt_logits[:, :, i],
                halt_step=int(margins[:, i].argmax()) + 1 if margins[:, i].any() else None,
                scores=self._kind.score(self._spec, inputs[i : i + 1], labels[i][None], answers[i : i + 1]),
                known=known[i],
                _kind=self._kind,
                _spec=self._spec,
            )
            for i in range(len(inputs))
        ]

    @property
    def _own(self) -> InputSpec | Component:
        """Sizes of the dataset's rows; those of the network are larger if it learned a mixture."""
        return self._restored.record.input_spec if self._component is None else self._component

    def _tokens(self, puzzle: str | ArrayLike) -> NDArray[np.uint8]:
        """Return the checked tokens of one puzzle."""
        tokens = self.parse(puzzle) if isinstance(puzzle, str) else np.asarray(puzzle)
        spec = self._own
        whole = np.issubdtype(tokens.dtype, np.integer)
        if tokens.shape != (spec.sequence_length,) or not whole:
            raise EvalError(
                f"the puzzle: expected {spec.sequence_length} tokens, got {tokens.dtype} of shape {tokens.shape}"
            )
        if tokens.min() < 0 or tokens.max() >= spec.vocabulary_size:
            raise EvalError(
                f"the puzzle: tokens from {PAD} to {spec.vocabulary_size - 1}, got {tokens.min()} to {tokens.max()}"
            )
        return tokens.astype(np.uint8)

    def _trace(self, inputs: NDArray[np.uint8], identifiers: NDArray[np.int32]) -> Trace:
        """Compute every cycle of these puzzles; the result is on the host."""
        restored = self._restored
        mesh, count = restored.mesh, len(inputs)
        size = -(-count // mesh.shape["data"]) * mesh.shape["data"]
        padding = ((0, size - count), (0, 0))
        rows: Batch = {
            "inputs": np.pad(inputs, padding),
            "puzzle_identifiers": np.pad(identifiers, padding[0]),
        }
        if self._component is not None:
            rows = self._component.encode(rows, restored.record.input_spec.sequence_length)
        batch = put_batch(rows, batch_sharding(mesh))
        program = self._programs.get(size)
        if program is None:
            step = make_trace_step(
                restored.record.config,
                restored.record.input_spec,
                restored.model,
                steps=self.supervision_steps,
                mesh=mesh,
            )
            program = self._programs[size] = jax.jit(step).lower(restored.weights, batch).compile()
        trace = jax.device_get(program(restored.weights, batch))
        trace = jax.tree.map(lambda leaf: np.asarray(leaf)[:, :, :count], trace)
        if self._component is not None:
            trace = replace(trace, predictions=self._component.decode(trace.predictions))
        return trace


def load(
    run: str,
    root: Root | None = None,
    *,
    checkpoint: str = "last",
    weights: str = "ema",
    supervision_steps: int | None = None,
    symbols: str = "",
    dataset: str | None = None,
) -> Solver:
    """Load the network of a run, ready to answer puzzles.

    Args:
        run: A run's name or folder, or an experiment: the run that it defines.
        root: Root folder, `gs://bucket/prefix`, a layout or a store (default: `$TRM_ROOT`, else `./trm`).
        checkpoint: A step, `last`, or `best` (highest exact accuracy on the validation split).
        weights: `ema` or `raw`.
        supervision_steps: Number of supervision steps per puzzle; None for the maximum of training.
        symbols: Characters of the cells in puzzles, if not the default ones (as `--symbols` of a build).
        dataset: For a run on a mixture, the name of the dataset whose puzzles to answer.

    Raises:
        ConfigError: The run does not exist, or it learned a mixture and `dataset` names none of its datasets.
        EvalError: The run has no checkpoint.
        CheckpointError: The checkpoint is damaged.
        DatasetError: Its dataset, which determines the kind of its puzzles, is not under the root.
    """
    use_compilation_cache()
    layout = resolve_root(root)
    folder = find_run(layout, run)
    record = read_record(folder)
    component = record.component(dataset)
    own = record.config.data.only_dataset() if component is None else component.dataset
    manifest = read_manifest(layout, own)
    if dataset not in (None, own, manifest.name) and component is None:
        raise EvalError(
            f"--dataset {dataset}: {record.run} answers puzzles of {own} only. Leave the option out."
        )
    spec = manifest.spec
    if symbols:
        spec = replace(spec, source=replace(spec.source, symbols=symbols))
    step = choose_step(folder, checkpoint)
    steps = supervision_steps or record.config.model.halt_max_steps
    restored = restore(folder, record, step=step, weights=weights)
    return Solver(
        restored, load_kind(spec.kind), spec, step=step, supervision_steps=steps, component=component
    )


def row_of(layout: Layout, dataset: str, split: str, row: int) -> tuple[NDArray[np.uint8], int]:
    """Return the tokens [S] and the puzzle identifier of a row of a dataset.

    Raises:
        EvalError: The row does not exist.
    """
    opened = open_dataset(dataset, layout, split)
    if not 0 <= row < len(opened):
        raise EvalError(f"--row {row}: {dataset} has {len(opened):,} rows in its {split} split, from 0")
    batch = opened.read(np.array([row]))
    return batch["inputs"][0].astype(np.uint8), int(batch["puzzle_identifiers"][0])
