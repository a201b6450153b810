"""Answers puzzles from the command line or a file, and draws them: `trm-eval predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from trm_data.show.drawing import Drawing
from trm_data.show.picture import FORMATS, write_animation, write_picture
from trm_eval.solver import Solution

ENDINGS = (*FORMATS, ".gif")


def verdict(solution: Solution) -> str:
    """Return what is known about an answer, in one line."""
    count, label = solution.known.count, solution.known.tokens
    if count == 0:
        return "the puzzle has no solution"
    if label is not None and count == 1 and np.array_equal(solution.answer, label):
        return "solved"
    several = "; the puzzle has several solutions" if count == 2 else ""
    if solution.legal:
        return f"a legal answer{several}" if count == 2 else "a legal answer, another than the solver's"
    if label is not None and count == 1:
        return f"wrong in {int((solution.answer != label).sum())} cells"
    return f"no legal answer{several}" if solution.legal is False else "not checked: the kind has no solver"


def as_json(solution: Solution, *, trace: bool) -> dict[str, Any]:
    """Return a solution as a JSON value."""
    scores = {
        name: None if (found := getattr(solution.scores, name)) is None else bool(found[0])
        for name in ("given_kept", "valid", "optimal")
    }
    label = solution.known.tokens
    value: dict[str, Any] = {
        "puzzle": solution.puzzle.tolist(),
        "answer": solution.answer.tolist(),
        "text": solution.text(),
        "verdict": verdict(solution),
        **scores,
        "solutions": solution.known.count,
        "exact": None
        if solution.known.count != 1 or label is None
        else bool((solution.answer == label).all()),
        "halt_probability": solution.halt_probability,
        "halt_step": solution.halt_step,
    }
    if trace:
        value["steps"] = [
            {
                "step": step,
                "cycle": cycle,
                "halt_logit": float(solution.halt_logits[step - 1, cycle - 1]),
                "answer": solution.answers[step - 1, cycle - 1].tolist(),
            }
            for step in range(1, len(solution.answers) + 1)
            for cycle in range(1, solution.answers.shape[1] + 1)
        ]
    return value


def steps_of(solution: Solution) -> list[tuple[str, Drawing]]:
    """Return drawings of the answer after every supervision step, marking changed cells; titles show confidence."""
    sure = 1 / (1 + np.exp(-solution.halt_logits[:, -1].astype(np.float64)))
    answers = solution.answers[:, -1]
    return [
        (
            f"step {step + 1}: halt {sure[step]:.2f}",
            solution.draw(tokens, answers[step - 1] if step else None),
        )
        for step, tokens in enumerate(answers)
    ]


def write_solution(solution: Solution, path: Path, *, trace: bool) -> None:
    """Draw a solution to a file: a .gif shows every cycle, .png and .svg the end or, if traced, every step."""
    puzzle, known = ("given", solution.draw_puzzle()), solution.draw_solution()
    ending = [] if known is None else [("solution", known)]
    last = (f"answer: {verdict(solution)}", solution.draw())
    if path.suffix.lower() == ".gif":
        cycles = solution.answers.shape[1]
        answers = solution.answers.reshape(-1, solution.puzzle.size)
        frames = [[puzzle, ("answer", puzzle[1]), *ending]]
        for number, tokens in enumerate(answers):
            step, cycle = divmod(number, cycles)
            title = f"answer, step {step + 1}" + (f", cycle {cycle + 1}" if cycles > 1 else "")
            before = answers[number - 1] if number else solution.puzzle
            frames.append([puzzle, (title, solution.draw(tokens, before)), *ending])
        write_animation([*frames, [puzzle, last, *ending]], path)
        return
    write_picture([puzzle, *(steps_of(solution) if trace else []), last, *ending], path)
