"""Compiles every distinct program of the study and the published recipes for absent machines.

    python tools/readiness.py docs/readiness.md [--only 'exp01*'] [--jobs 2]

`make readiness`. Results are stored in a JSON file next to the page, one row for each program and target. A row is
computed again when the code of the step has changed. If interrupted, the same command resumes.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path
from typing import Any

import trm_train
from trm_data.storage.atomic import write_json
from trm_train.config.run import config_to_json
from trm_train.experiments.dataset import plan_datasets
from trm_train.experiments.registry import experiments_at
from trm_train.experiments.setting import Setting
from trm_train.targets.catalog import check_packages, environment, find_target

STUDY_TARGET = "v4-64"
RECIPE_TARGETS = ("v4-64", "h100", "h200")
RECIPES = ("trm_sudoku_mlp", "trm_sudoku_attention", "trm_maze", "trm_arc1", "trm_arc2")
AUTO = ("--execution.micro-batches", "auto")
COMPILED_FROM = (
    "model",
    "mesh.py",
    "optim.py",
    "objective.py",
    "state.py",
    "step/train.py",
    "step/compile.py",
    "step/evaluate.py",
    "step/think.py",
    "targets/catalog.py",
    "targets/estimate.py",
)
"""Source files that affect the compiled programs and the figures read from them."""


@dataclass(frozen=True)
class Program:
    """A program to compile; one experiment represents all experiments with the same program.

    Attributes:
        experiments: Names of the experiments; the first is compiled.
        target: Name of the target.
        key: Digest of everything that determines the program.
    """

    experiments: tuple[str, ...]
    target: str
    key: str


def programs() -> list[Program]:
    """Return the distinct programs: exp01c and the recipes on each target first, then the rest of the study."""
    setting, found = Setting("full", "published"), dict[str, list[str]]()
    for name, item in experiments_at(setting).items():
        config = item.configure(setting)
        planned = plan_datasets(config.data.names)
        spec = None if planned is None else planned.input_spec.to_json()
        found.setdefault(_key(config_to_json(config), spec, len(config.data.names)), []).append(name)
    order = sorted(found.items(), key=lambda each: not any(name.startswith("exp") for name in each[1]))
    study = [Program(tuple(names), STUDY_TARGET, key) for key, names in order]
    recipes = [
        Program((name,), target, key)
        for name in RECIPES
        for target in RECIPE_TARGETS
        for key, names in found.items()
        if name in names and target != STUDY_TARGET
    ]
    first = [program for program in study if set(program.experiments) & {*RECIPES, "exp01c"}]
    return [*first, *recipes, *(program for program in study if program not in first)]


def _key(config: dict[str, Any], spec: Any, datasets: int) -> str:
    """Return the digest of a configuration without numbers that change no shape: rates, warm-up and steps."""
    rates = ("lr_warmup_steps", "lr_min_ratio")
    optim = {
        name: value
        for name, value in config["optim"].items()
        if not isinstance(value, float) and name not in rates
    }
    execution = {
        name: config["execution"][name] for name in ("micro_batches", "rematerialise", "shard_parameters")
    }
    decides = [
        config["model"],
        config["loss"],
        optim,
        execution,
        config["data"]["global_batch_size"],
        datasets,
        spec,
    ]
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:16]


def code_digest() -> str:
    """Return the digest of jax's version and of the code that determines the programs, without docstrings."""
    digest, root = hashlib.sha256(version("jax").encode()), Path(trm_train.__file__).parent
    for name in COMPILED_FROM:
        path = root / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            tree = ast.parse(file.read_text())
            for node in ast.walk(tree):
                body = getattr(node, "body", None)
                if isinstance(body, list):
                    node.body = [each for each in body if not _is_text(each)]  # pyright: ignore
            digest.update(ast.dump(tree).encode())
    return digest.hexdigest()[:16]


def _is_text(statement: object) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def compile_program(program: Program) -> dict[str, Any]:
    """Compile a program, with more microbatches if it does not fit; return its row."""
    plan, error = _dry_run(program, ())
    changed = ""
    if plan is None or not plan["fits"]:
        found, error = _dry_run(program, AUTO)
        if found is not None:
            plan, changed = found, f"microbatches {found['estimate']['micro_batches']}"
    row: dict[str, Any] = {"key": program.key, "target": program.target, "experiment": program.experiments[0]}
    if plan is None:
        return row | {"fits": False, "error": error}
    kept = ("peak_bytes", "device_bytes", "fits", "compile_s", "total_steps", "num_parameters", "collectives")
    return row | {"changed": changed} | {name: plan[name] for name in kept} | {"estimate": plan["estimate"]}


def _dry_run(program: Program, more: Sequence[str]) -> tuple[dict[str, Any] | None, str]:
    """Return the plan of a program, or None and the reason."""
    target = find_target(program.target)
    command = [sys.executable, "-m", "trm_train", "run", program.experiments[0], "--dry-run", "--json"]
    done = subprocess.run(
        [*command, "--target", program.target, *more],
        env=environment(target),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.stdout.startswith("{"):
        return json.loads(done.stdout), ""
    # In a traceback, take the line with the exception; jax writes a remark after it.
    said = done.stderr.strip().splitlines() or ["no answer"]
    return None, next((line for line in reversed(said) if "Error: " in line), said[-1])[:300]


def run(page: Path, only: Sequence[str], targets: Sequence[str], jobs: int) -> int:
    """Compile the programs that have no row, and write the page after each; return how many do not fit."""
    store, code = page.with_suffix(".json"), code_digest()
    rows: list[dict[str, Any]] = json.loads(store.read_text()) if store.exists() else []
    wanted = [
        each for each in programs() if not only or any(fnmatch(n, p) for n in each.experiments for p in only)
    ]
    wanted = [each for each in wanted if not targets or each.target in targets]
    have = {(row["key"], row["target"]) for row in rows if row.get("code") == code}
    todo = [each for each in wanted if (each.key, each.target) not in have]
    for name in sorted({each.target for each in todo}):
        check_packages(find_target(name))
    _say(f"{len(wanted)} programs, {len(todo)} to compile, {jobs} at a time")

    def one(program: Program) -> tuple[Program, dict[str, Any], float]:
        begun = time.monotonic()
        return program, compile_program(program), time.monotonic() - begun

    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(one, program) for program in todo]
        for done, future in enumerate(as_completed(futures), start=1):
            program, row, seconds = future.result()
            rows = [each for each in rows if not _is_of(each, program)]
            rows.append(row | {"code": code, "experiments": list(program.experiments)})
            write_json(store, rows)
            page.write_text(render(rows, programs(), code))
            said = "fits" if row["fits"] else f"does not fit: {row.get('error', '')}"
            _say(f"{done}/{len(todo)} {program.experiments[0]} on {program.target}: {said}, {seconds:.0f} s")
    page.write_text(render(rows, programs(), code))
    return sum(not row["fits"] for row in rows)


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _is_of(row: dict[str, Any], program: Program) -> bool:
    """Return whether a row is of a program, or of an earlier version of it."""
    same = (row["key"], row["target"]) == (program.key, program.target)
    return same or (row["experiment"], row["target"]) == (program.experiments[0], program.target)


def render(rows: Sequence[dict[str, Any]], wanted: Sequence[Program], code: str) -> str:
    """Return the page; rows compiled from other code than this digest are marked."""
    newest = {each: [row for row in rows if _is_of(row, each)][-1:] for each in wanted}
    known = [(each, row) for each, found in newest.items() for row in found]
    missing = [each for each, found in newest.items() if not found]
    fitting = [row for _, row in known if row["fits"]]
    head = HEAD.format(
        total=len(wanted),
        compiled=len(known),
        fitting=len(fitting),
        runs=sum(len(each.experiments) for each in wanted if each.target == STUDY_TARGET),
    )
    lines = [
        head,
        "| run | target | memory a device (GB) | fits | step (ms) | peak | run (h) | sent a step (MB) | changed |",
    ]
    lines.append("|---|---|---|---|---|---|---|---|---|")
    earlier = [(program, row) for program, row in known if (row["code"], row["key"]) != (code, program.key)]
    lines += [_line(program, row, " *" * ((program, row) in earlier)) for program, row in known]
    if earlier:
        lines += [
            "",
            f"Rows with *, {len(earlier)} of {len(known)}, were compiled from an earlier version of the step.",
        ]
    if missing:
        names = ", ".join(f"{each.experiments[0]} on {each.target}" for each in missing)
        lines += ["", f"Not compiled yet: {names}."]
    return "\n".join(lines) + "\n"


def _line(program: Program, row: dict[str, Any], mark: str) -> str:
    others = len(program.experiments) - 1
    name = f"`{program.experiments[0]}`" + (f" and {others} with the same program" if others else "") + mark
    if not row.get("estimate"):
        return f"| {name} | {program.target} | | no | | | | | {row.get('error', '')} |"
    found = row["estimate"]
    step = "" if found["step_s"] is None else f"{found['step_s'] * 1e3:,.1f}"
    peak = "" if found["share_of_peak"] is None else f"{found['share_of_peak']:.0%}"
    hours = "" if found["run_hours"] is None else f"{found['run_hours']:,.1f}"
    if found["kernels_without_estimate"] and step:
        step, peak, hours = f"{step} + attention", "", f"> {hours}"
    sent = sum(each["bytes"] for each in row["collectives"]) / 1e6
    fits = "yes" if row["fits"] else "no"
    memory = f"{row['peak_bytes'] / 1e9:.1f} of {row['device_bytes'] / 1e9:.1f}"
    cells = (name, program.target, memory, fits, step, peak, hours, f"{sent:,.1f}", row["changed"])
    return f"| {' | '.join(cells)} |"


HEAD = """<!-- Generated by `make readiness`. -->

# Readiness: compiled for a TPU v4-64 and for NVIDIA GPUs

This page answers whether the study's runs compile and fit the machines that they are meant for. Each program was
compiled with the target's own compiler, on a machine without the target:

<!-- not run: needs 3.4 GB of compilers and hours (make|trm-train) -->
```sh
make targets                                            # the compilers, in .tools/targets
trm-train run exp01c --dry-run --target v4-64           # one run
make readiness                                          # this page; resumes if interrupted
```

**{compiled} of {total} programs are compiled; {fitting} of them fit.** They stand for {runs} runs of the study and its
additions at full scale; runs whose programs are the same share a row. ARC runs have the published number of
identifiers.

Every figure here is a compiler estimate. Memory is what the compiled training step needs on one device. The time of a
step on a TPU is the sum of the compiler's estimated cycles, over all loops, divided by the clock. Splash attention has
no estimate: rows with `+ attention` leave its time out. GPU compilers give no time. Three of
the recipes were also compiled on an H100 and run there: `trm_sudoku_mlp` held 30.4 GB, `trm_maze` 69.4 GB and
`trm_arc1` 71.2 GB. That is between 3% less and 17% more than here ([performance.md](performance.md)).

Compilation cannot show: the input pipeline on 8 hosts, the speed of the real interconnect, numerics on the device, and
the real time of a step.

"""


def main() -> None:
    """Compile the programs and write the page; exit with code 1 if a program does not fit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="names or globs of experiments")
    parser.add_argument("--target", nargs="*", default=[], help="these targets only")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    sys.exit(1 if run(options.page, options.only, options.target, options.jobs) else 0)


if __name__ == "__main__":
    main()
