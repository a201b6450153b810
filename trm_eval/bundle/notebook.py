"""Notebook of a bundle: turns a competition's tasks into `submission.json` without a network, in plain Python.

Format: nbformat 4.5 (nbformat.readthedocs.io), which is JSON. The code cells run in order as one program; their only
inputs are the environment variables that the first cell reads.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

WHEELS = "wheels"
WHEELS_FILE = "wheels.txt"
PACKAGE = "package"
NOTEBOOK = "notebook.ipynb"
DATASET = "competition"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Parameters of a notebook.

    Attributes:
        run: Name of the run.
        step: Training step of its weights.
        python: Minor Python version of the wheels, such as `3.11`.
        aug: Number of augmentations per task.
        virtual: Whether augmentations are computed when rows are read, instead of stored.
        seed: Seed of the augmentations.
        minutes: Time to adapt to the tasks before answering them (min).
    """

    run: str
    step: int
    python: str
    aug: int
    virtual: bool
    seed: int
    minutes: float


ABOUT = """\
# {run}

Answers the tasks of an ARC competition by a Tiny Recursive Model of `trm-lab`, without a network: installs the wheels
of this bundle into an environment of its own, brings the weights (step {step:,}) under a new root, builds the tasks
into a dataset with {aug:,} augmentations of each, learns embeddings of the tasks from their demonstrations for
`MINUTES`, and writes the two answers with the most votes to each test input. Attach the bundle and the competition,
switch the internet off, and run all cells."""

SETTINGS = """\
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

RUN, PYTHON, AUG, AUGMENT, SEED = {run!r}, {python!r}, {aug!r}, {augment!r}, {seed!r}
MINUTES = float(os.environ.get("TRM_MINUTES", {minutes!r}))  # to learn the tasks; answering takes its own time after it
SUBSET = os.environ.get("TRM_SUBSET", "test")  # of arc-agi_SUBSET_challenges.json
SUBMISSION = Path(os.environ.get("TRM_SUBMISSION", "submission.json")).absolute()
WORK = Path(os.environ.get("TRM_WORK", Path(tempfile.gettempdir()) / "trm-bundle")).absolute()


def folder_of(name, given):
    \"\"\"The folder with a file of this name: the one given, here, or attached to a notebook of Kaggle.\"\"\"
    if given:
        return Path(given).absolute()
    for place in (Path.cwd(), Path("/kaggle/input")):
        found = sorted(place.rglob(name))
        if found:
            return found[0].parent
    raise SystemExit(f"found no {{name}} here nor in /kaggle/input: attach it")


BUNDLE = folder_of("{wheels_file}", os.environ.get("TRM_BUNDLE"))
CHALLENGES = f"arc-agi_{{SUBSET}}_challenges.json"
COMPETITION = folder_of(CHALLENGES, os.environ.get("TRM_COMPETITION"))
if f"{{sys.version_info.major}}.{{sys.version_info.minor}}" != PYTHON:
    raise SystemExit(
        f"the wheels are for Python {{PYTHON}}, this is {{sys.version.split()[0]}}: bundle again with --python"
    )
print(f"bundle {{BUNDLE}}, tasks {{COMPETITION / CHALLENGES}}")"""

INSTALL = """\
# An environment of its own: what the image has installed is neither changed nor seen.
subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--clear", WORK / "env"], check=True)
pip = [sys.executable, "-m", "pip", "--python", WORK / "env" / "bin" / "python", "install", "--quiet"]
offline = ["--no-index", "--no-deps", "--require-hashes", "--find-links", BUNDLE / "{wheels}"]
subprocess.run([*pip, *offline, "--requirement", BUNDLE / "{wheels_file}"], check=True)


def trm(command, *words):
    \"\"\"Run a command of trm-lab, and stop where it fails.\"\"\"
    outside = ("PYTHONPATH", "PYTHONHOME")
    environment = {{name: value for name, value in os.environ.items() if name not in outside}}
    words = [WORK / "env" / "bin" / command, *words, "--root", WORK / "root"]
    subprocess.run(words, check=True, env={{**environment, "TRM_CACHE": str(WORK / "cache")}})"""

WEIGHTS = """\
trm("trm-eval", "import", BUNDLE / "{package}")"""

TASKS = """\
tasks = ["--source", f"kaggle:{{COMPETITION}}", "--subsets", SUBSET, "--evaluation", SUBSET]
aug = ["--aug", str(AUG), "--augment", AUGMENT, "--seed", str(SEED)]
trm("trm-data", "build", "arc", *tasks, *aug, "--name", "{dataset}", "--quiet")"""

PREDICT = """\
trm("trm-eval", "run", RUN, "--dataset", "{dataset}", "--adapt", str(MINUTES))
trm("trm-eval", "submission", RUN, "--dataset", "{dataset}", "--out", SUBMISSION)"""

CHECK = """\
tasks = json.loads((COMPETITION / CHALLENGES).read_text())
answers = json.loads(SUBMISSION.read_text())
assert answers.keys() == tasks.keys(), sorted(answers.keys() ^ tasks.keys())
for name, task in tasks.items():
    assert len(answers[name]) == len(task["test"]), name
    assert all(answer["attempt_1"] and answer["attempt_2"] for answer in answers[name]), name
print(f"{{SUBMISSION}}: {{len(answers)}} tasks, two attempts at each of their test inputs")"""

CODE = (SETTINGS, INSTALL, WEIGHTS, TASKS, PREDICT, CHECK)


def notebook(recipe: Recipe) -> dict[str, Any]:
    """Return the notebook as a JSON value."""
    values: dict[str, Any] = {
        **{name: getattr(recipe, name) for name in ("run", "step", "python", "aug", "seed", "minutes")},
        "augment": "virtual" if recipe.virtual else "stored",
        **{"wheels": WHEELS, "wheels_file": WHEELS_FILE, "package": PACKAGE, "dataset": DATASET},
    }
    about = {"cell_type": "markdown", "id": "about", "metadata": {}, "source": _lines(ABOUT.format(**values))}
    code = [
        {
            "cell_type": "code",
            "id": f"cell-{number}",
            "metadata": {},
            "execution_count": None,
            "outputs": [],
            "source": _lines(source.format(**values)),
        }
        for number, source in enumerate(CODE, start=1)
    ]
    return {
        "cells": [about, *code],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python", "version": recipe.python},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def notebook_bytes(recipe: Recipe) -> bytes:
    """Return the content of the notebook file."""
    return (json.dumps(notebook(recipe), indent=1) + "\n").encode()


def _lines(text: str) -> list[str]:
    """Split the text of a cell into lines with line ends, as the format requires."""
    return text.splitlines(keepends=True)
