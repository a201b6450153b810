"""Compares our evaluation of a published weights file with the published network's answers.

    python tests/parity/check_weights.py FILE EXPECTED.npz

FILE is .safetensors or .npz. EXPECTED.npz has `config` (JSON bytes), `inputs`,
`puzzle_identifiers`, and `logits` and `q_halt_logits` after `halt_max_steps` supervision steps. Exits 0 if all are
within the bound, 1 if one is not, 2 if a file is unreadable or unsupported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from check import Row, UnsupportedFixtureError, check_shape, load_golden, load_json, load_model

from trm_train.config.data import DataConfig
from trm_train.config.run import RunConfig
from trm_train.errors import TrainError
from trm_train.state import abstract_weights
from trm_train.step.evaluate import make_eval_step
from trm_train.training.initial import padded, read_published

BOUND = 1e-4
"""Bound of the largest absolute deviation."""


def check_weights(file: str, expected: str) -> Iterator[Row]:
    """Evaluate the file's weights on the expected inputs; yield one row per quantity.

    Raises:
        UnsupportedFixtureError: A file is unreadable, incomplete or has something unsupported.
    """
    golden = load_golden(expected)
    model, spec = load_model(load_json(golden, "config"))
    missing = {"inputs", "puzzle_identifiers", "logits", "q_halt_logits"} - golden.keys()
    if missing:
        raise UnsupportedFixtureError(f"{expected} lacks {', '.join(sorted(missing))}")
    inputs, identifiers = (golden[name].astype(np.int32) for name in ("inputs", "puzzle_identifiers"))
    data = DataConfig(dataset="golden", global_batch_size=len(inputs))
    config = RunConfig(data=data, model=model, total_steps=10_000)
    try:
        weights = read_published(Path(file), config, spec)
    except TrainError as e:
        raise UnsupportedFixtureError(str(e)) from e
    if weights.puzzle_table is not None and len(weights.puzzle_table) != spec.num_identifiers:
        raise UnsupportedFixtureError(
            f"{len(weights.puzzle_table)} embedding rows; the configuration has {spec.num_identifiers} identifiers"
        )
    weights = jax.device_put(replace(weights, puzzle_table=padded(weights.puzzle_table)))
    definition, _ = abstract_weights(config, spec)
    batch = {"inputs": inputs, "labels": np.zeros_like(inputs), "puzzle_identifiers": identifiers}
    step = jax.jit(make_eval_step(config, spec, definition, return_logits=True))
    outputs = step(weights, batch)
    yield compare("logits", outputs.logits, golden["logits"])
    yield compare("q_halt_logits", outputs.q_halt_logits, golden["q_halt_logits"])


def compare(quantity: str, got: Any, want: np.ndarray) -> Row:
    """Compare by the largest absolute deviation."""
    got = np.asarray(got, np.float64)
    check_shape(quantity, got, want)
    deviation = float(np.max(np.abs(got - want)))
    return Row(quantity, deviation, BOUND, bool(deviation <= BOUND))


def main(arguments: list[str]) -> int:
    """Print the table; return 0 if everything is within the bound."""
    if len(arguments) != 2:
        print("usage: python tests/parity/check_weights.py FILE EXPECTED.npz", file=sys.stderr)
        return 2
    try:
        rows = list(check_weights(*arguments))
    except UnsupportedFixtureError as e:
        print(f"error: {arguments[0]}: {e}", file=sys.stderr)
        return 2
    print(f"{'quantity':<16} {'deviation':>10} {'bound':>8}  ok")
    for row in rows:
        print(f"{row.quantity:<16} {row.deviation:>10.2e} {row.bound:>8.0e}  {'yes' if row.ok else 'NO'}")
    failed = sum(not row.ok for row in rows)
    print(f"{failed} quantities beyond their bound" if failed else "all within their bounds")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
