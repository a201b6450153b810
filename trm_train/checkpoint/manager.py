"""Checkpoints of a run: written while training continues, and verified when they are read back.

There are two kinds. `resume` holds the whole training state (mostly the carry; the last two are kept). `weights` holds
what evaluation needs: parameters, EMA, puzzle table and fixed latents; a policy selects those to keep. Both have a JSON
`meta`: the digests of the dataset, the data step, and a fingerprint of every leaf that is independent of its sharding.
A digest covers the whole meta. The folder name, the meta and the state must agree on the step.

Orbax writes them to a folder or a bucket: under a temporary name that it renames, or with a commit marker as the last
file. So an interrupted checkpoint is never read. Several processes each write and read their own shards under a shared
root. All make the same calls in the same order, one save at a time.
"""

from __future__ import annotations

import errno
import gc
import json
import logging
import math
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp

from trm_data.errors import BucketError
from trm_data.storage.atomic import with_digest
from trm_data.storage.gcs import unreachable
from trm_data.storage.store import Folder
from trm_train.checkpoint.tree import (
    exported_file,
    read_exported,
    read_meta,
    state_from_tree,
    state_tree,
    weights_tree,
    write_exported,
)
from trm_train.errors import CheckpointError
from trm_train.hosts import Hosts
from trm_train.mesh import fingerprints
from trm_train.state import TrainState


@dataclass
class Keep:
    """Checkpoints to keep; all of them if `last` is 0.

    Attributes:
        last: Number of the newest to keep.
        every: Interval in steps; 0 keeps none.
        best: Those with the best validation, of steps that were validated.
        scores: Exact accuracy of the validation by step; validation adds to it. Equal in all processes.
    """

    last: int = 0
    every: int = 0
    best: bool = True
    scores: dict[int, float | None] = field(default_factory=dict)

    def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> list[bool]:
        """Whether each checkpoint stays, as Orbax asks; it gives them by step."""
        kept = self.kept([checkpoint.step for checkpoint in checkpoints])
        return [checkpoint.step in kept for checkpoint in checkpoints]

    def kept(self, steps: Sequence[int]) -> set[int]:
        """The steps that stay, of ascending ones."""
        if not self.last:
            return set(steps)
        kept = set(steps[-self.last :])
        if self.every:
            kept |= {step for step in steps if step % self.every == 0}
        scores = {step: self.scores.get(step) for step in steps}
        scored = [
            (score, step) for step, score in scores.items() if score is not None and not math.isnan(score)
        ]
        if self.best and scored:
            kept.add(max(scored)[1])
        return kept


FORMAT_VERSION = 3
"""Format 2 adds a digest of the metadata, by a rule that later formats keep; format 3 adds the run's name."""
RESUME_KEPT = 2
FOLDER = "checkpoints"
COMMITTED = "commit_success.txt"
"""File that Orbax writes last into a checkpoint folder."""


@dataclass(frozen=True, kw_only=True)
class CheckpointMeta:
    """Metadata of a checkpoint."""

    step: int
    """Optimizer steps taken; also the index of the next batch."""
    identity: str
    content_digest: str
    identifiers_digest: str
    tracking_id: str = ""
    """Id of the run at wandb, in checkpoints of earlier versions; the file `tracking-id` of the run has it."""
    run: str = ""
    """Name of the run, because runs that differ only in the seed share an identity; empty before format 3."""
    format_version: int = FORMAT_VERSION


class NewerCheckpointError(CheckpointError):
    """A checkpoint of a newer format, apparently intact, that this version cannot read."""


@dataclass(frozen=True)
class Restored:
    """State that a run resumes from.

    Attributes:
        state: The training state.
        meta: Metadata of the checkpoint.
        problems: One line for each newer checkpoint that was damaged.
    """

    state: TrainState
    meta: CheckpointMeta
    problems: list[str]


class Checkpoints:
    """Checkpoints of one run.

    Args:
        folder: The run's folder.
        keep: Policy for the weights to keep; None keeps all.
        hosts: All processes of the run.
    """

    def __init__(self, folder: Folder, keep: Keep | None = None, hosts: Hosts | None = None) -> None:
        self.keep, self._hosts = keep or Keep(), hosts or Hosts()
        self.folder = folder.within(FOLDER)
        if jax.process_index() == 0:
            _remove_incomplete(folder)
        self._failed = self._reopen = False
        self._damaged: set[int] = set()
        self._resumes = False
        self._open()

    def _open(self) -> None:
        """Open both kinds, and delete what an earlier save has left half-written."""
        self._resume = _manager(self.folder.within("resume"), Keep(RESUME_KEPT, best=False))
        self._weights = _manager(self.folder.within("weights"), self.keep)

    def save(self, state: TrainState, meta: CheckpointMeta) -> None:
        """Start to write both kinds; return when the arrays are copied, before they are written.

        After a `BucketError` it may be called again, for this step or a later one.
        """
        with self._failing_in_one_line():
            if self._reopen:
                self._close_managers()
                self._open()
                self._reopen = False
            self._remove_damaged()
        for manager, tree in ((self._weights, weights_tree(state)), (self._resume, state_tree(state))):
            if meta.step in manager.all_steps():
                continue
            content = with_digest({**asdict(meta), "fingerprints": fingerprints(tree)})
            items = ocp.args.Composite(
                state=ocp.args.StandardSave(tree),  # pyright: ignore[reportCallIssue]
                meta=ocp.args.JsonSave(content),  # pyright: ignore[reportCallIssue]
            )
            with self._failing_in_one_line():
                if jax.process_count() > 1:  # processes would confuse two managers that write concurrently
                    self._weights.wait_until_finished()
                    self._resume.wait_until_finished()
                manager.save(meta.step, args=items, force=True)  # without, a step below the latest is skipped

    def latest_step(self) -> int | None:
        """Return the step of the newest resume checkpoint that is not known to be damaged."""
        return max(set(self._resume.all_steps()) - self._damaged, default=None)

    def restore(self, like: TrainState) -> Restored | None:
        """Return the newest resume checkpoint that is intact on every process, with the layout of `like`, or None.

        Newer checkpoints that are damaged on any process stay until the next save; training repeats their steps.


        Args:
            like: Arrays, or shapes with shardings.
        """
        damaged: dict[int, str] = {}
        there = json.dumps(sorted(self._resume.all_steps(), reverse=True))
        steps: list[int] = json.loads(self._hosts.barrier("checkpoints", there)[0])
        for step in steps:
            path = self.folder.where(f"resume/{step}")
            read, problem = None, ""
            try:
                read = _read(self._resume, step, state_tree(like), path)
            except NewerCheckpointError:
                raise
            except CheckpointError as error:
                problem = str(error)
            problem = self._problem_of_any(step, problem)
            if read is not None and not problem:
                tree, expected, meta = read
                problem = _wrong_arrays(tree, expected, path)  # the same in all processes
                if not problem and int(tree["step"]) != step:
                    problem = f"{path}: holds a state after {int(tree['step'])} steps"
                if not problem:
                    self._damaged, self._resumes = set(damaged), True
                    return Restored(state_from_tree(tree, like), meta, list(damaged.values()))
            damaged[step] = problem
        if not damaged:
            return None
        problems = "\n  ".join(damaged.values())
        raise CheckpointError(f"{problems}\n  all checkpoints are damaged. Start over with --resume never")

    def _problem_of_any(self, step: int, problem: str) -> str:
        """Return a process's problem with a checkpoint; empty if all processes could read their part."""
        said = self._hosts.barrier(f"checkpoint at step {step}", problem or "-")
        for index, other in enumerate(said):
            if other != "-":
                return other if self._hosts.count == 1 else f"{self._hosts.name(index)}: {other}"
        return ""

    def _remove_damaged(self) -> None:
        """Delete damaged resume checkpoints and all newer weights, because Orbax saves no step before the newest.

        Such weights were saved with a damaged state, or before a kill that left no state. Training repeats their
        steps.
        """
        if not self._resumes:
            return
        there = self._resume.all_steps()
        for step in self._damaged & set(there):
            self._resume.delete(step)
        self._damaged = set()
        newest = self.latest_step() or 0
        for step in [step for step in self._weights.all_steps() if step > newest]:
            self._weights.delete(step)
        self._resumes = False

    def wait(self) -> None:
        """Return when everything saved is stored, or has failed and was reported."""
        if self._reopen:
            return
        with self._failing_in_one_line():
            self._weights.wait_until_finished()
            self._resume.wait_until_finished()

    def close(self) -> None:
        """Finish writing and stop the threads; raise the error of a failed save if nothing was raised yet."""
        said = self._failed or sys.exc_info()[0] is not None
        error = self._close_managers()
        if error is not None and not said:
            raise error

    def _close_managers(self) -> Exception | None:
        """Close both managers; return the error if something could not be written."""
        error: Exception | None = None
        for manager in (self._weights, self._resume):
            try:
                with self._failing_in_one_line():
                    manager.close()
            except (CheckpointError, BucketError) as failed:
                error = failed
        if self._failed:
            gc.collect()  # unfinished Orbax work ends here, while its messages are suppressed
        return error

    @contextmanager
    def _failing_in_one_line(self) -> Generator[None, None, None]:
        """Replace an error of Orbax by a one-line error that says which checkpoint to resume from."""
        try:
            yield
        except Exception as error:  # Orbax and tensorstore raise many types
            self._failed = True
            step = self.latest_step()
            resumes = f"resumes from step {step:,}" if step else "starts over"
            reason = _first_line(error)
            if is_full(error):
                raise CheckpointError(
                    f"{self.folder}: no space left for a checkpoint; free some, and the same command {resumes}"
                ) from error
            self._reopen = unreachable(error)
            if self._reopen:
                raise BucketError(f"{self.folder}: a checkpoint could not be written ({reason})") from error
            raise CheckpointError(
                f"{self.folder}: a checkpoint could not be written ({reason}); the same command {resumes}"
            ) from error


def _remove_incomplete(run: Folder) -> None:
    """Delete checkpoints without their last file, such as those of an interrupted copy: Orbax takes any folder."""
    names = run.within(FOLDER).names()
    steps = {"/".join(name.split("/")[:2]) for name in names if name.count("/") >= 2}
    for step in steps:
        if f"{step}/{COMMITTED}" not in names:
            run.store.delete_folder(f"{run.path}/{FOLDER}/{step}")


def weights_steps(run: Folder) -> list[int]:
    """Return the steps of a run's complete weights checkpoints, ascending; the one of an exported run."""
    if steps := _steps(run, "weights"):
        return steps
    exported = exported_file(run)
    return [] if exported is None else [read_meta(exported)["step"]]


def _steps(run: Folder, kind: str) -> list[int]:
    found = (name.split("/")[0] for name in run.within(f"{FOLDER}/{kind}").names(f"*/{COMMITTED}"))
    return sorted(int(step) for step in found if step.isdecimal())


def resume_steps(run: Folder) -> list[int]:
    """Return the steps that a run can resume from, ascending."""
    return _steps(run, "resume")


def saved_steps(run: Folder) -> list[int]:
    """Return the steps of a run's complete checkpoints of both kinds, ascending."""
    found = (name.split("/")[1] for name in run.within(FOLDER).names(f"*/*/{COMMITTED}"))
    return sorted({int(step) for step in found if step.isdecimal()})


def restore_weights(run: Folder, step: int, like: dict[str, Any]) -> tuple[dict[str, Any], CheckpointMeta]:
    """Read a weights checkpoint of a run, or the file of an exported run, as a tree like that of `weights_tree`."""
    steps = weights_steps(run)
    if step not in steps:
        have = f"there are: {', '.join(map(str, steps))}" if steps else "the run has none yet"
        raise CheckpointError(f"{run}: no weights checkpoint at step {step} ({have})")
    if not _steps(run, "weights") and (exported := exported_file(run)) is not None:
        expected, meta = _checked_meta(read_meta(exported), step, str(exported))
        tree = read_exported(exported, like)
        if problem := _wrong_arrays(tree, expected, str(exported)):
            raise CheckpointError(problem)
        return tree, meta
    folder = run.within(f"{FOLDER}/weights")
    manager = _manager(folder, None, create=False)
    try:
        shown = folder.where(str(step))
        tree, expected, meta = _read(manager, step, like, shown)
        if problem := _wrong_arrays(tree, expected, shown):
            raise CheckpointError(problem)
        return tree, meta
    except CheckpointError as error:
        others = ", ".join(str(other) for other in steps if other != step)
        raise CheckpointError(f"{error}" + (f"; there are others: {others}" if others else "")) from error
    finally:
        manager.close()


def export_weights(path: Path, tree: dict[str, Any], meta: CheckpointMeta) -> None:
    """Write the weights of a checkpoint as one file (`checkpoint.tree`)."""
    content = with_digest({**asdict(meta), "fingerprints": fingerprints(tree)})
    write_exported(path, jax.device_get(tree), content)


def write_weights(run: Folder, tree: dict[str, Any], meta: CheckpointMeta) -> None:
    """Write one weights checkpoint of a run that is not being trained, from a tree like that of `weights_tree`."""
    manager = _manager(run.within(f"{FOLDER}/weights"), None)
    content = with_digest({**asdict(meta), "fingerprints": fingerprints(tree)})
    items = ocp.args.Composite(
        state=ocp.args.StandardSave(tree),  # pyright: ignore[reportCallIssue]
        meta=ocp.args.JsonSave(content),  # pyright: ignore[reportCallIssue]
    )
    try:
        manager.save(meta.step, args=items)
        manager.close()
    except Exception as error:  # Orbax and tensorstore raise many types
        kind = BucketError if unreachable(error) else CheckpointError
        reason = "no space left; free some" if is_full(error) else _first_line(error)
        raise kind(f"{run}: the checkpoint could not be written ({reason})") from error


def _manager(folder: Folder, keep: Keep | None, *, create: bool = True) -> ocp.CheckpointManager:
    """Return a manager that writes, or only reads if `create` is False."""
    let_work_be_given_up()
    options = ocp.CheckpointManagerOptions(
        preservation_policy=keep,
        create=create,
        cleanup_tmp_directories=create,
        multiprocessing_options=ocp.options.MultiprocessingOptions(barrier_sync_key_prefix=folder.name),
        enable_async_checkpointing=create,
    )
    return ocp.CheckpointManager(folder.uri(), options=options, item_names=("state", "meta"))


def _read(
    manager: ocp.CheckpointManager, step: int, like: Any, shown: str
) -> tuple[dict[str, Any], dict[str, int], CheckpointMeta]:
    """Return the arrays of a checkpoint, their fingerprints at the save, and the metadata."""
    abstract = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=getattr(leaf, "sharding", None)),
        like,
    )
    try:
        restored = manager.restore(
            step,
            args=ocp.args.Composite(
                state=ocp.args.StandardRestore(abstract),  # pyright: ignore[reportCallIssue]
                meta=ocp.args.JsonRestore(),
            ),
        )
        tree, content = restored["state"], restored["meta"]
    except Exception as error:  # Orbax and tensorstore raise many types
        if isinstance(error, MemoryError) or (
            isinstance(error, OSError) and not isinstance(error, (FileNotFoundError, NotADirectoryError))
        ):
            raise  # a problem of this machine, not of the stored data
        if unreachable(error):
            raise BucketError(f"{shown}: could not be read ({_first_line(error)}); try again") from error
        raise CheckpointError(f"{shown}: cannot be read: {_first_line(error)}") from error
    return tree, *_checked_meta(content, step, shown)


def _wrong_arrays(tree: Any, expected: dict[str, int], shown: str) -> str:
    """Return a message that names the arrays with a wrong fingerprint; empty if all are right."""
    found = fingerprints(tree)
    wrong = [name for name in expected if expected[name] != found.get(name)]
    wrong += sorted(set(found) - set(expected))
    return f"{shown}: arrays are not those that were saved: {', '.join(wrong[:5])}" if wrong else ""


def _checked_meta(content: Any, step: int, shown: str) -> tuple[dict[str, int], CheckpointMeta]:
    """Return the fingerprints and the metadata after checking their digest; format 1 had no digest."""
    try:
        value: dict[str, Any] = dict(content)
        if (value["format_version"] != 1 or "digest" in value) and with_digest(value) != value:
            raise CheckpointError(f"{shown}: its meta was changed (its digest differs)")
        if int(value["format_version"]) > FORMAT_VERSION:
            raise NewerCheckpointError(f"{shown}: was written by a newer version of trm-train; upgrade it")
        value.pop("digest", None)
        expected: dict[str, int] = dict(value.pop("fingerprints"))
        meta = CheckpointMeta(**value)
    except (TypeError, ValueError, KeyError) as error:
        raise CheckpointError(f"{shown}: its meta cannot be read ({error!r})") from error
    if meta.step != step:
        raise CheckpointError(f"{shown}: its meta names step {meta.step}")
    return expected, meta


def is_full(error: BaseException) -> bool:
    """Return whether an error means a full disk; tensorstore only says so in its text."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if "No space left on device" in str(seen) or "OS error 28" in str(seen):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def let_work_be_given_up() -> None:
    """Suppress the tracebacks that Orbax would print for its remaining work after one part has failed.

    The error itself is raised and reported in one line. May be called repeatedly: the hook lasts until another
    `sys.unraisablehook` is set.
    """
    if not isinstance(sys.unraisablehook, _NotOfOrbax):
        sys.unraisablehook = _NotOfOrbax(sys.unraisablehook)
    logging.getLogger("asyncio").addFilter(lambda record: "never retrieved" not in record.getMessage())
    logging.getLogger("absl").setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class _NotOfOrbax:
    """Hook for unraisable exceptions that ignores those of abandoned Orbax work."""

    otherwise: Callable[[sys.UnraisableHookArgs], object]

    def __call__(self, unraisable: sys.UnraisableHookArgs, /) -> None:
        of_orbax = getattr(getattr(unraisable.object, "cr_code", None), "co_filename", "")
        if str(unraisable.exc_value) != "Event loop is closed" and "orbax" not in of_orbax:
            self.otherwise(unraisable)
