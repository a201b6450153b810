"""Makes a bundle: `trm-eval bundle`. Reads top to bottom in `make_bundle`.

wheels/            wheels that prediction needs, including this package
wheels.txt         their names, versions and sha256, from which the notebook installs them
package/           the run, as packed by `trm-eval export`: weights, configuration, results, dataset recipe
notebook.ipynb     turns a competition's tasks into submission.json
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trm_data.errors import not_written
from trm_data.manifest import Manifest
from trm_data.show.progress import Progress
from trm_data.storage.atomic import file_sha256
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_eval.bundle.index import PROJECT, Wheel, fetch_wheels, find_wheels, hashed_lines
from trm_eval.bundle.notebook import NOTEBOOK, PACKAGE, WHEELS, WHEELS_FILE, Recipe, notebook_bytes
from trm_eval.bundle.own_wheel import write_own_wheel
from trm_eval.bundle.target import Target
from trm_eval.errors import BundleError
from trm_eval.evaluation.checkpoints import choose_step
from trm_eval.package.pack import pack_run
from trm_eval.package.recipe import find_manifest
from trm_train.runs.record import RunRecord, read_record


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Requested contents of a bundle.

    Attributes:
        target: Target machine.
        extras: Extras of this package that the accelerator needs.
        checkpoint: A step, `last` or `best`.
        aug: Number of augmentations per task; None for as many as the run learned from.
        minutes: Time to adapt to the tasks before answering them (min).
    """

    target: Target
    extras: tuple[str, ...] = ()
    checkpoint: str = "last"
    aug: int | None = None
    minutes: float = 60.0


@dataclass(frozen=True)
class Bundle:
    """Result of a bundle, made or planned.

    Attributes:
        run: Name of the run.
        step: Training step of its weights.
        wheels: Size of each wheel by file name (bytes); None if the server does not report it.
        size_bytes: Total size of the files with known size.
    """

    run: str
    step: int
    wheels: dict[str, int | None]
    size_bytes: int


def plan_bundle(layout: Layout, run: Folder, wanted: Wanted, progress: Progress) -> Bundle:
    """Return the wheels that a bundle would have, with their sizes; nothing is downloaded or written."""
    record = read_record(run)
    recipe = _recipe(layout, run, record, wanted)
    sizes = {wheel.file: wheel.size_bytes for wheel in _find(wanted, progress)}
    return Bundle(record.run, recipe.step, sizes, sum(size or 0 for size in sizes.values()))


def make_bundle(layout: Layout, run: Folder, out: Path, wanted: Wanted, progress: Progress) -> Bundle:
    """Write a bundle into a folder, atomically.

    Args:
        layout: The root with the run's dataset and results.
        run: The run's folder.
        out: Folder to write; must be missing or empty.
        wanted: Requested contents.
        progress: Progress display.

    Raises:
        BundleError: The folder is not empty or cannot be written, the run cannot be bundled, or a wheel is not
            available.
        EvalError: The run has no such checkpoint.
        CheckpointError: The checkpoint is damaged.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BundleError(f"--kaggle {out}: exists and is not empty. Choose another folder")
    record = read_record(run)
    recipe = _recipe(layout, run, record, wanted)
    wheels = _find(wanted, progress)
    temporary = out.with_name(f".tmp-{out.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        folder = temporary / WHEELS
        folder.mkdir(parents=True)
        pack_run(layout, run, temporary / PACKAGE, checkpoint=str(recipe.step))
        (temporary / NOTEBOOK).write_bytes(notebook_bytes(recipe))
        progress.start("fetch wheels", len(wheels), "wheels")
        fetch_wheels(wanted.target, wheels, folder)
        progress.advance(len(wheels))
        own = write_own_wheel(folder)
        hashes = {f"{wheel.name}=={wheel.version}": wheel.sha256 for wheel in wheels}
        hashes[f"{PROJECT}=={own.name.split('-')[1]}"] = file_sha256(own)
        (temporary / WHEELS_FILE).write_text(hashed_lines(hashes), "utf-8")
        files = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
        if len(files) != len(hashes):
            raise BundleError(f"{len(files)} wheels were fetched, {len(hashes)} are needed; bundle again")
        size = sum(path.stat().st_size for path in temporary.rglob("*") if path.is_file())
        temporary.rename(out)
    except OSError as error:
        raise BundleError(not_written(out, error, "bundle again")) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return Bundle(record.run, recipe.step, dict(files), size)


def _find(wanted: Wanted, progress: Progress) -> Sequence[Wheel]:
    """Find the wheels of other packages."""
    progress.start("find wheels", None, "wheels")
    wheels = find_wheels(wanted.target, wanted.extras)
    progress.advance(len(wheels))
    return wheels


def _recipe(layout: Layout, run: Folder, record: RunRecord, wanted: Wanted) -> Recipe:
    """Return the parameters of the notebook."""
    spec = _arc_dataset(layout, record).spec
    step = choose_step(run, wanted.checkpoint)
    if not 0 < wanted.minutes < float("inf"):
        raise BundleError(f"--adapt: got {wanted.minutes:g}; expected more than 0 minutes")
    if wanted.aug is not None and wanted.aug < 0:
        raise BundleError(f"--aug: got {wanted.aug}; expected 0 or more")
    return Recipe(
        run=record.run,
        step=step,
        python=wanted.target.python,
        aug=spec.aug if wanted.aug is None else wanted.aug,
        virtual=spec.augment == "virtual",
        seed=spec.seed,
        minutes=wanted.minutes,
    )


def _arc_dataset(layout: Layout, record: RunRecord) -> Manifest:
    """Return the manifest of the run's training dataset; raise BundleError unless it is here and of kind arc."""
    name = record.config.data.only_dataset()
    manifest = find_manifest(layout, name)
    if manifest is None:
        raise BundleError(
            f"{record.run}: learned from {name}, which is not under {layout.place}. Build it, or copy its manifest "
            f"(trm-data sync): a bundle builds new tasks the same way"
        )
    if manifest.kind != "arc":
        raise BundleError(
            f"{record.run}: learned from {name}, which is of the kind {manifest.kind}; a bundle for an ARC competition "
            "needs a run of ARC (trm-eval export packs any)"
        )
    return manifest
