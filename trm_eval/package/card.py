"""The card of a package: README.md in the form that the Hugging Face hub reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from trm_eval.package.contents import RAW, WEIGHTS
from trm_eval.statistics.intervals import wilson
from trm_train.config.run import effective_identity
from trm_train.runs.record import RunRecord

HERE = "."


def model_card(
    record: RunRecord,
    *,
    step: int,
    parameters: int | None,
    evals: Sequence[Mapping[str, Any]],
    datasets: Sequence[Mapping[str, Any]],
    place: str = HERE,
    license: str = "",
) -> str:
    """What the run is, what it was tested to be, how to load it, and how the rows it learned from are built.

    Args:
        record: The run.
        step: Training step of the weights.
        parameters: Trained parameters of the network, the puzzle embedding aside; None where unknown.
        evals: Rows of the view `evals` of these weights.
        datasets: What `dataset.json` says.
        place: What `trm-eval import` takes: `hf:OWNER/NAME`, or the package's own folder.
        license: Identifier of the weights' licence; empty leaves it to whoever shares them.
    """
    kinds = sorted({str(dataset["kind"]) for dataset in datasets if dataset["kind"]})
    lines = [
        *_front_matter(record, kinds, evals, license),
        "",
        f"# {record.run}",
        "",
        f"A network of the architecture `{record.config.model.architecture}` (Tiny Recursive Model), trained by "
        f"trm-lab on {' and '.join(f'`{name}`' for name in record.config.data.names)}: {_size(parameters)}"
        f"{step:,} of {record.total_steps:,} steps, experiment `{record.experiment}`, seed {record.config.seed}.",
        "",
        "## Results",
        "",
        *_results(evals),
        "",
        "## Load it",
        "",
        "```sh",
        f"trm-eval import {place} --root trm",
        *(f"{dataset['command']} --root trm" for dataset in datasets if dataset["command"]),
        f"trm-eval run {record.run} --root trm",
        "```",
        "",
        "The import checks every file against `package.json` and runs nothing of what it reads; the evaluation then "
        "measures the weights on rows that you built yourself. Without trm-lab:",
        "",
        "```python",
        "import numpy as np",
        "",
        f'weights = np.load("{WEIGHTS}", allow_pickle=False)  # averaged parameters, latents, puzzle table; float32',
        "print({name: weights[name].shape for name in weights.files})",
        "```",
        "",
        f"`{RAW}` has the raw parameters under the same names. The names and layouts of the Tiny Recursive Model are "
        "those of the published code, without a prefix.",
        "",
        "## Data",
        "",
        *_data(datasets),
        "",
        "## Configuration",
        "",
        "What differs from the defaults; `config.json` has all of it.",
        "",
        "```json",
        json.dumps(effective_identity(record.config), indent=1, sort_keys=True),
        "```",
        "",
    ]
    return "\n".join(lines)


def _size(parameters: int | None) -> str:
    return "" if parameters is None else f"{parameters:,} parameters, "


def _front_matter(
    record: RunRecord, kinds: list[str], evals: Sequence[Mapping[str, Any]], license: str
) -> list[str]:
    """What a hub reads of a card."""
    lines = [
        "---",
        f"license: {json.dumps(license)}" if license else "# license: choose one before you share this",
        "library_name: trm-lab",
        f"tags: {json.dumps(['tiny-recursive-model', 'jax', *kinds])}",
    ]
    if evals:
        lines.append(f"model-index: {json.dumps(_index(record, kinds, evals))}")
    return [*lines, "---"]


def _index(record: RunRecord, kinds: list[str], evals: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The results in the hub's form."""
    task = kinds[0] if kinds else "puzzles"
    results = [
        {
            "task": {"type": task, "name": task},
            "dataset": {"type": row["dataset"], "name": row["dataset"], "split": row["split"]},
            "metrics": [
                {
                    "type": name,
                    "name": f"{name.replace('_', ' ')} ({row['weights']} weights, {row['how']})",
                    "value": row[name],
                }
                for name in ("exact_accuracy", "cell_accuracy")
                if row[name] is not None
            ],
        }
        for row in evals
        if row["count"]
    ]
    return [{"name": record.run, "results": results}]


def _results(evals: Sequence[Mapping[str, Any]]) -> list[str]:
    """A table with Wilson's intervals."""
    scored = [row for row in evals if row["count"]]
    if not scored:
        return ["These weights were not tested before they were packed."]
    lines = [
        "| dataset | split | puzzles | weights | how | exact accuracy (95% interval) | cells right |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in scored:
        exact = wilson(row["exact_count"], row["count"])
        rows = f"{row['count']:,}" if not row["row_limit"] else f"{row['count']:,} (a part of the split)"
        lines.append(
            f"| {row['dataset']} | {row['split']} | {rows} | {row['weights']} | {row['how']}, "
            f"{row['supervision_steps']} supervision steps | {100 * exact.value:.2f}% ({100 * exact.low:.2f}% to "
            f"{100 * exact.high:.2f}%) | {100 * row['cell_accuracy']:.2f}% |"
        )
    return [
        *lines,
        "",
        "An answer is exact if every cell is right. Intervals are Wilson's over the rows; rows that are augmentations "
        "of one puzzle are not independent, and theirs are too narrow. `results/` has all evaluations of the run as "
        "measured, accuracy after every supervision step, and the training metrics.",
    ]


def _data(datasets: Sequence[Mapping[str, Any]]) -> list[str]:
    """How to build what it learned from, and which rows these were."""
    lines: list[str] = []
    for dataset in datasets:
        digest = f"content digest `{dataset['content_digest']}`" if dataset["content_digest"] else "no digest"
        lines.append(f"- `{dataset['name']}`: {digest}. {dataset['note']}".rstrip())
    return [
        *lines,
        "",
        "No puzzles are in this package: their licences are their own. `dataset.json` has the specification; an "
        "evaluation refuses rows of another digest.",
    ]
