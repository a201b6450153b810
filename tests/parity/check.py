"""Compares our training and evaluation steps with golden numbers of the published implementation.

    python tests/parity/check.py FIXTURE.npz

The file contains sizes, mixer, positions, rates and the number of steps. Prints the largest deviation of every quantity
and its bound. Exits 0 if all are within the bounds, 1 if one is not, 2 if the file is unreadable or unsupported. The
steps are those of training and evaluation (`make_train_step`, `make_eval_step`), in float32. Source of the bounds: the
published recipe.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from trm_train.config.data import DataConfig
from trm_train.config.model import ARCHITECTURES, BlocksConfig
from trm_train.config.optim import OptimizerConfig
from trm_train.config.run import InputSpec, OptimConfig, RunConfig
from trm_train.errors import TrainError
from trm_train.model.published import (
    TABLE,
    params_from_published,
    params_to_published,
    weights_from_published,
    weights_to_published,
)
from trm_train.state import Weights, init_state, start_state
from trm_train.step.evaluate import make_eval_step
from trm_train.step.train import make_train_step

IGNORE_LABEL = -100
STRAY_ELEMENTS = 10
"""Maximum number of elements of a parameter set beyond the bound: sign-like updates flip on rounding."""
ROUNDING = 1e-4
"""Share of a parameter's root-mean-square gradient below which rounding determines a gradient's sign."""
TRAIN_METRICS = ("count", "accuracy", "exact_accuracy", "q_halt_accuracy", "steps", "lm_loss", "q_halt_loss")
EXACT_METRICS = ("count", "exact_accuracy", "q_halt_accuracy", "steps")
ROW_KEYS = ("inputs", "labels", "puzzle_identifiers")

Golden = Mapping[str, np.ndarray]


class UnsupportedFixtureError(Exception):
    """The file is not a fixture, or has something that this checker does not support."""


@dataclass(frozen=True)
class Row:
    """One line of the printed table."""

    quantity: str
    deviation: float
    bound: float
    ok: bool
    note: str = ""


def relative_bound(step: int) -> float:
    """Return the bound of a relative norm: the first step is pure forward and backward; later errors accumulate."""
    return 1e-5 if step == 1 else 5e-4


def absolute_bound(step: int) -> float:
    """Return the bound of a parameter's element."""
    return 1e-6 if step == 1 else 2e-5


def compare_norm(quantity: str, got: Any, want: np.ndarray, bound: float) -> Row:
    """Compare by the norm of the difference divided by the norm of the golden values."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    check_shape(quantity, got, want)
    scale = float(np.linalg.norm(want))
    deviation = float(np.linalg.norm(got - want)) / (scale if scale > 0 else 1.0)
    return Row(quantity, deviation, bound, bool(deviation <= bound))


def compare_exact(quantity: str, got: Any, want: np.ndarray) -> Row:
    """Compare by the number of entries that differ."""
    got, want = np.asarray(got), np.asarray(want)
    check_shape(quantity, got, want)
    differing = int(np.sum(got.astype(np.int64) != want.astype(np.int64)))
    return Row(quantity, float(differing), 0.0, differing == 0, "entries that differ")


def compare_elements(quantity: str, got: Golden, want: Golden, bound: float) -> Row:
    """Compare by the largest deviation of an element; a few elements may exceed the bound."""
    deviations = []
    for name, value in want.items():
        check_shape(f"{quantity} {name}", got[name], value)
        deviations.append(np.abs(np.asarray(got[name], np.float64) - np.asarray(value, np.float64)).ravel())
    flat = np.concatenate(deviations)
    stray = int(np.sum(~(flat <= bound)))
    ok = stray <= STRAY_ELEMENTS and bool(np.all(np.isfinite(flat)))
    return Row(quantity, float(np.max(flat)), bound, ok, f"{stray} of {flat.size} elements beyond")


def check_shape(quantity: str, got: np.ndarray, want: np.ndarray) -> None:
    """Raise an error for different shapes, so that nothing is broadcast."""
    if np.shape(got) != np.shape(want):
        raise UnsupportedFixtureError(
            f"{quantity}: the file has shape {np.shape(want)}, ours is {np.shape(got)}"
        )


def load_golden(path: str) -> dict[str, np.ndarray]:
    """Return every array of the file."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile) as e:
        raise UnsupportedFixtureError(f"not a readable .npz file ({e})") from e


def load_json(golden: Golden, name: str) -> dict[str, Any]:
    """Return a JSON object stored as bytes."""
    try:
        value = json.loads(golden[name].tobytes().decode())
    except KeyError as e:
        raise UnsupportedFixtureError(f"the file has no `{name}`") from e
    except ValueError as e:
        raise UnsupportedFixtureError(f"`{name}` is not JSON ({e})") from e
    if not isinstance(value, dict):
        raise UnsupportedFixtureError(f"`{name}`: expected a JSON object")
    return value


FIELDS = {
    "trm": {
        "num_layers": "L_layers",
        "h_cycles": "H_cycles",
        "l_cycles": "L_cycles",
        "no_act_continue": "no_ACT_continue",
    },
    "single_z": {"num_layers": "L_layers", "h_cycles": "H_cycles", "l_cycles": "L_cycles"},
    "hrm": {"num_layers": "L_layers", "h_cycles": "H_cycles", "l_cycles": "L_cycles"},
    "transformer": {"num_layers": "H_layers"},
}
"""Options of each architecture, and the published keys of their values."""
STATES = {"trm": ("z_H", "z_L"), "single_z": ("z_L",), "hrm": ("z_H", "z_L"), "transformer": ("z_H",)}
"""States of each architecture in the carry; our names are the same in lower case."""


def load_model(theirs: Mapping[str, Any]) -> tuple[BlocksConfig, InputSpec]:
    """Return our network and input sizes for a published configuration."""
    name = theirs.get("architecture", "trm")
    if name not in FIELDS:
        raise UnsupportedFixtureError(f"architecture: expected one of {', '.join(FIELDS)}, got {name!r}")
    try:
        if theirs["forward_dtype"] != "float32":
            raise UnsupportedFixtureError(f"forward_dtype: expected float32, got {theirs['forward_dtype']!r}")
        model = ARCHITECTURES.form(name)(
            hidden_size=theirs["hidden_size"],
            halt_max_steps=theirs["halt_max_steps"],
            halt_exploration_prob=0.0,
            puzzle_emb_ndim=theirs["puzzle_emb_ndim"],
            puzzle_emb_len=0 if name in ("hrm", "transformer") else theirs["puzzle_emb_len"],
            forward_dtype="float32",
            **{
                "num_heads": theirs["num_heads"],
                "expansion": float(theirs["expansion"]),
                "mixer": "mlp_t" if theirs.get("mlp_t", False) else "attention",
                "pos_encodings": theirs["pos_encodings"],
            },
            **{ours: theirs[key] for ours, key in FIELDS[name].items()},
        )
        spec = InputSpec(
            sequence_length=theirs["seq_len"],
            vocabulary_size=theirs["vocab_size"],
            num_identifiers=theirs["num_puzzle_identifiers"],
            ignore_label=IGNORE_LABEL,
        )
    except KeyError as e:
        raise UnsupportedFixtureError(f"the file's configuration lacks {e}") from e
    assert isinstance(model, BlocksConfig)
    return model, spec


def load_config(golden: Golden) -> tuple[RunConfig, InputSpec, int]:
    """Return our configuration for that of the file, and the batch size."""
    theirs, rates = load_json(golden, "config"), load_json(golden, "hyperparameters")
    model, spec = load_model(theirs)
    try:
        if theirs["halt_exploration_prob"] != 0 or rates["global_batch_size"] != theirs["batch_size"]:
            raise UnsupportedFixtureError("expected no exploration, and a global batch of batch_size")
        optim = OptimConfig(
            lr=rates["lr"],
            lr_warmup_steps=0,
            beta1=rates["beta1"],
            beta2=rates["beta2"],
            weight_decay=rates["weight_decay"],
            puzzle_emb_lr=rates["puzzle_emb_lr"],
            puzzle_emb_weight_decay=rates["puzzle_emb_weight_decay"],
            ema_rate=rates["ema_rate"],
        )
        batch_size = theirs["batch_size"]
    except KeyError as e:
        raise UnsupportedFixtureError(f"the file's configuration lacks {e}") from e
    data = DataConfig(dataset="golden", global_batch_size=batch_size)
    steps = len(step_numbers(golden))
    return RunConfig(data=data, model=model, optim=optim, total_steps=steps), spec, batch_size


def step_numbers(golden: Golden) -> list[int]:
    """Return the steps in the file: 1 to N."""
    found = sorted({int(m[1]) for m in (re.match(r"step(\d+)/batch/", name) for name in golden) if m})
    if not found or found != list(range(1, len(found) + 1)):
        raise UnsupportedFixtureError(f"expected steps 1 to N in the file, got {found}")
    return found


def check_complete(golden: Golden, steps: list[int], config: BlocksConfig) -> None:
    """Raise an error if a quantity is missing, so that an incomplete file does not pass."""
    table = config.puzzle_emb_ndim != 0
    needed = {"step1/grad/puzzle_emb_rows"} if table else set[str]()
    needed |= {"eval/steps_run", *(f"eval/out/{x}" for x in ("logits", "q_halt_logits", "preds"))}
    needed |= {f"eval/metrics/{x}" for x in TRAIN_METRICS}
    for n in steps:
        needed |= {f"step{n}/batch/{x}" for x in ROW_KEYS} | {f"step{n}/loss"}
        needed |= {f"step{n}/out/{x}" for x in ("logits", "q_halt_logits", "preds")}
        needed |= {f"step{n}/metrics/{x}" for x in TRAIN_METRICS}
        needed |= {f"step{n}/carry/{x}" for x in (*STATES[config.architecture], "steps", "halted")}
        needed |= {f"step{n}/carry/current/{x}" for x in ROW_KEYS}
    for prefix in ("init/", "step1/grad/inner.", "step1/params/", f"step{steps[-1]}/params/", "ema/"):
        if not any(name.startswith(prefix) for name in golden):
            needed.add(prefix)
    missing = sorted(needed - set(golden))
    if missing:
        raise UnsupportedFixtureError(f"the file lacks {', '.join(missing)}")


def section(golden: Golden, prefix: str) -> dict[str, np.ndarray]:
    """Return the entries below a prefix, without the prefix."""
    return {name.removeprefix(prefix): value for name, value in golden.items() if name.startswith(prefix)}


def compare_metrics(prefix: str, got: Mapping[str, Any], golden: Golden, bound: float) -> Iterator[Row]:
    """Compare counts exactly, and sums by their relative deviation."""
    for name in TRAIN_METRICS:
        quantity = f"{prefix}/metrics/{name}"
        if name in EXACT_METRICS:
            yield compare_exact(quantity, got[name], golden[quantity])
        else:
            yield compare_norm(quantity, got[name], golden[quantity], bound)


def compare_outputs(
    prefix: str, logits: Any, q_halt: Any, predictions: Any, golden: Golden, bound: float
) -> Iterator[Row]:
    """Compare logits by norm, and predictions exactly."""
    yield compare_norm(f"{prefix}/out/logits", logits, golden[f"{prefix}/out/logits"], bound)
    yield compare_norm(f"{prefix}/out/q_halt_logits", q_halt, golden[f"{prefix}/out/q_halt_logits"], bound)
    yield compare_exact(f"{prefix}/out/preds", predictions, golden[f"{prefix}/out/preds"])


def compare_continue(prefix: str, detail: Any, golden: Golden, bound: float) -> Iterator[Row]:
    """Compare the continue logits and their loss, if the file has them."""
    found = {f"{prefix}/out/q_continue_logits": detail.q_logits[:, 1]}
    if detail.losses.q_continue is not None:
        found[f"{prefix}/out/target_q_continue"] = detail.losses.continue_target
        found[f"{prefix}/metrics/q_continue_loss"] = detail.losses.q_continue.sum()
    for quantity, got in found.items():
        if quantity in golden:
            yield compare_norm(quantity, got, golden[quantity], bound)


def compare_carry(prefix: str, carry: Any, golden: Golden, bound: float) -> Iterator[Row]:
    """Compare states by norm; counters, flags and current examples exactly."""
    for name, state in carry.states.items():
        published = f"z_{name.removeprefix('z_').upper()}"
        yield compare_norm(f"{prefix}/carry/{published}", state, golden[f"{prefix}/carry/{published}"], bound)
    yield compare_exact(f"{prefix}/carry/steps", carry.steps, golden[f"{prefix}/carry/steps"])
    yield compare_exact(f"{prefix}/carry/halted", carry.halted, golden[f"{prefix}/carry/halted"])
    for name in ROW_KEYS:
        quantity = f"{prefix}/carry/current/{name}"
        yield compare_exact(quantity, carry.current[name], golden[quantity])


def check_fixture(path: str) -> Iterator[Row]:
    """Run the file's steps with our training and evaluation steps; yield one row per quantity.

    Raises:
        UnsupportedFixtureError: The file is unreadable, incomplete or has something unsupported.
    """
    golden = load_golden(path)
    config, spec, batch_size = load_config(golden)
    steps = step_numbers(golden)
    model_config = config.model
    assert isinstance(model_config, BlocksConfig)
    check_complete(golden, steps, model_config)
    try:
        params, fixed, table = weights_from_published(model_config, spec, section(golden, "init/"))
        model, initial = init_state(config, spec, batch_size)
    except TrainError as e:
        raise UnsupportedFixtureError(str(e)) from e
    params, fixed, table = jax.tree.map(jnp.asarray, (params, fixed, table))
    state = start_state(config, spec, batch_size, params, fixed, table, initial.key)
    if jax.tree.map(jnp.shape, state) != jax.tree.map(jnp.shape, initial):
        raise UnsupportedFixtureError("the shapes of init/ do not fit the file's configuration")

    train_step = jax.jit(make_train_step(config, spec, model, with_detail=True))
    for n in steps:
        prefix, bound = f"step{n}", relative_bound(n)
        batch = {name: golden[f"{prefix}/batch/{name}"].astype(np.int32) for name in ROW_KEYS}
        state, metrics, detail = train_step(state, batch)
        outputs = (detail.logits, detail.q_logits[:, 0], detail.losses.predictions)
        yield from compare_outputs(prefix, *outputs, golden, bound)
        yield compare_norm(f"{prefix}/loss", detail.loss, golden[f"{prefix}/loss"], bound)
        yield from compare_metrics(prefix, metrics, golden, bound)
        yield from compare_continue(prefix, detail, golden, bound)
        yield from compare_carry(prefix, state.carry, golden, bound)
        yield from compare_gradients(prefix, model_config, detail, golden, bound)
        wanted = section(golden, f"{prefix}/params/")
        if wanted:
            got = weights_to_published(model_config, spec, state.params, state.fixed, state.puzzle_table)
            yield from compare_parameters(f"{prefix}/params", got, wanted, absolute_bound(n))
            if n == 1:
                state, flips = without_flips(state, model_config, detail.grads, wanted, config.optim)
                yield Row(
                    f"{prefix}/flips", flips, STRAY_ELEMENTS, flips <= STRAY_ELEMENTS, "taken from the file"
                )

    average = params_to_published(model_config, state.ema)
    yield from compare_parameters("ema", average, section(golden, "ema/"), absolute_bound(steps[-1]))

    # Start from the file's parameters instead of ours, which are compared above: evaluation would amplify their
    # rounding (float64 arithmetic would then deviate from the golden logits by as much as the bound).
    last = section(golden, f"step{steps[-1]}/params/")
    weights = Weights(*jax.tree.map(jnp.asarray, weights_from_published(model_config, spec, last)))
    evaluated = jax.jit(make_eval_step(config, spec, model, return_logits=True))(weights, batch)
    bound = relative_bound(len(steps))
    outputs = (evaluated.logits, evaluated.q_halt_logits, evaluated.predictions)
    yield compare_exact("eval/steps_run", len(evaluated.q_halt_by_step), golden["eval/steps_run"])
    yield from compare_outputs("eval", *outputs, golden, bound)
    yield from compare_metrics("eval", evaluated.metrics, golden, bound)


def without_flips(
    state: Any, config: BlocksConfig, grads: Any, wanted: Golden, optim: OptimizerConfig
) -> tuple[Any, int]:
    """Return the state with the file's value where an update has the other sign, and the number of such elements.

    The first step of AdamATan2 moves every element by the same amount, whatever the size of its gradient. If a gradient
    is at rounding level, its sign is noise: one element of the single-state fixture has the gradient 6e-8 in float64
    and -2e-7 in the file, at a root mean square of 0.1. Later steps of the file follow from its own sign. Only elements
    with a gradient below `ROUNDING` times the root mean square of their parameter's are changed.
    """
    params, averages = (params_to_published(config, tree) for tree in (state.params, state.ema))
    flipped = 0
    for name, gradient in params_to_published(config, grads).items():
        noise = np.abs(gradient) < ROUNDING * np.sqrt(np.mean(np.square(gradient)))
        difference = np.where(noise, wanted[name] - params[name], 0.0)
        difference[np.abs(difference) < optim.lr] = 0.0
        flipped += int(np.count_nonzero(difference))
        params[name] = params[name] + difference
        averages[name] = averages[name] + (1 - optim.ema_rate) * difference
    if not flipped:
        return state, 0
    changed = [jax.tree.map(jnp.asarray, params_from_published(config, tree)) for tree in (params, averages)]
    return dataclasses.replace(state, params=changed[0], ema=changed[1]), flipped


def compare_gradients(
    prefix: str, config: BlocksConfig, detail: Any, golden: Golden, bound: float
) -> Iterator[Row]:
    """Compare every parameter's gradient, and that of the puzzle-embedding row of every slot."""
    wanted = section(golden, f"{prefix}/grad/")
    if not wanted:
        return
    got = params_to_published(config, detail.grads)
    if detail.row_grads is not None:
        got["puzzle_emb_rows"] = np.asarray(detail.row_grads)
    check_names(f"{prefix}/grad", got, wanted)
    for name, value in wanted.items():
        yield compare_norm(f"{prefix}/grad/{name}", got[name], value, bound)


def compare_parameters(quantity: str, got: Golden, wanted: Golden, bound: float) -> Iterator[Row]:
    """Compare the trained parameters as one set, and the puzzle table as another."""
    check_names(quantity, got, wanted)
    network = {name: value for name, value in wanted.items() if name != TABLE}
    yield compare_elements(quantity, got, network, bound)
    if TABLE in wanted:
        yield compare_elements(f"{quantity}/{TABLE}", got, {TABLE: wanted[TABLE]}, bound)


def check_names(quantity: str, got: Golden, wanted: Golden) -> None:
    """Check that the file has exactly our names."""
    if set(got) != set(wanted):
        differing = ", ".join(sorted(set(got) ^ set(wanted)))
        raise UnsupportedFixtureError(f"{quantity}: not in both the file and our model: {differing}")


def main(arguments: list[str]) -> int:
    """Print the table; return 0 if everything is within the bounds."""
    if len(arguments) != 1:
        print("usage: python tests/parity/check.py FIXTURE.npz", file=sys.stderr)
        return 2
    failed, first = 0, True
    try:
        for row in check_fixture(arguments[0]):
            if first:
                print(f"{'quantity':<66} {'deviation':>10} {'bound':>8}  ok")
            failed, first = failed + (not row.ok), False
            verdict = "yes" if row.ok else "NO"
            line = f"{row.quantity:<66} {row.deviation:>10.2e} {row.bound:>8.0e}  {verdict:<3} {row.note}"
            print(line.rstrip())
    except UnsupportedFixtureError as e:
        print(f"error: {arguments[0]}: {e}", file=sys.stderr)
        return 2
    print(f"{failed} quantities beyond their bound" if failed else "all within their bounds")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
