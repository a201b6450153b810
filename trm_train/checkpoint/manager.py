"""Checkpoints of a run, written while training continues, and read back with proof that they are the same.

Two kinds: `resume` holds the whole training state (most of it the carry; the last two are kept), `weights`
what evaluation needs (parameters, EMA, puzzle table, fixed latents; kept by policy). Both carry a JSON
`meta`: the dataset's digests, the data step, the tracking run's id, and a fingerprint of every leaf that
does not depend on how it is laid out over devices; a digest covers all of it. Name of the folder, meta and
state must say the same step.

Orbax writes them itself, into a folder or onto a bucket: under a temporary name that it renames, or with a last file
that says that the others are there. A checkpoint that a kill cut short is never seen. Of several processes each writes
and reads its shards, under one root that all share; all make the same calls in the same order, one save at a time.
"""

from __future__ import annotations

import errno
import gc
import json
import logging
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import jax
import orbax.checkpoint as ocp

from trm_data.errors import BucketError
from trm_data.storage.atomic import with_digest
from trm_data.storage.gcs import unreachable
from trm_data.storage.store import Folder
from trm_train.checkpoint.tree import state_from_tree, state_tree, weights_tree
from trm_train.errors import CheckpointError
from trm_train.hosts.together import Hosts
from trm_train.mesh.fingerprint import fingerprints
from trm_train.state import TrainState


@dataclass
class Keep:
    """What stays; with `last` 0 everything does.

    Attributes:
        last: Number of the newest to keep.
        every: Interval in steps; 0 keeps none.
        best: Those with the best validation, of steps that were validated.
        scores: Exact accuracy of the validation by step; whoever validates adds to it. Of several processes all have
            the same ones.
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
        scored = [(score, step) for step in steps if (score := self.scores.get(step)) is not None]
        if self.best and scored:
            kept.add(max(scored)[1])
        return kept


FORMAT_VERSION = 3
"""Since 2 the meta has a digest of itself, by a rule that later formats keep; since 3 it names the run."""
RESUME_KEPT = 2
FOLDER = "checkpoints"
COMMITTED = "commit_success.txt"
"""Written into a checkpoint's folder last of all, by Orbax."""
COPYING = "copying"
"""In a run's folder while it is copied there: checkpoints without their last file are not whole."""


@dataclass(frozen=True, kw_only=True)
class CheckpointMeta:
    """What a checkpoint says of itself."""

    step: int
    """Optimizer steps taken, and so the step of the next batch."""
    identity: str
    content_digest: str
    identifiers_digest: str
    tracking_id: str
    run: str = ""
    """Name of the run, for runs of several seeds have one identity; empty before format 3."""
    format_version: int = FORMAT_VERSION


class NewerCheckpointError(CheckpointError):
    """A checkpoint that is whole for all that can be known, and that this version cannot read."""


@dataclass(frozen=True)
class Restored:
    """The state that a run resumes from.

    Attributes:
        state: The training state.
        meta: What the checkpoint says of itself.
        problems: A line for each newer checkpoint that was damaged.
    """

    state: TrainState
    meta: CheckpointMeta
    problems: list[str]


class Checkpoints:
    """The checkpoints of one run.

    Args:
        folder: The run's folder.
        keep: Which weights stay; None keeps all.
        hosts: All processes of the run.
    """

    def __init__(self, folder: Folder, keep: Keep | None = None, hosts: Hosts | None = None) -> None:
        self.keep, self._hosts = keep or Keep(), hosts or Hosts()
        self.folder = folder.within(FOLDER)
        if jax.process_index() == 0:
            _remove_half_copied(folder)
        self._failed = self._reopen = False
        self._damaged: set[int] = set()
        self._resumes = False
        self._open()

    def _open(self) -> None:
        """Open both kinds, without what an earlier save has left half-written."""
        self._resume = _manager(self.folder.within("resume"), Keep(RESUME_KEPT, best=False))
        self._weights = _manager(self.folder.within("weights"), self.keep)

    def save(self, state: TrainState, meta: CheckpointMeta) -> None:
        """Start writing both kinds; returns when the arrays are copied, not when they are written.

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
                if jax.process_count() > 1:  # what two managers write at once gets mixed up between processes
                    self._weights.wait_until_finished()
                    self._resume.wait_until_finished()
                manager.save(meta.step, args=items)

    def latest_step(self) -> int | None:
        """Step of the newest resume checkpoint that is not known to be damaged."""
        return max(set(self._resume.all_steps()) - self._damaged, default=None)

    def restore(self, like: TrainState) -> Restored | None:
        """The newest resume checkpoint that is whole on every process, laid out as `like`; None where there is none.

        Newer ones that are damaged on any of them stay until the next one is saved: training comes by their steps
        again.

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
                problem = _wrong_arrays(tree, expected, path)  # all processes find the same
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
        """What any of the processes has to say against a checkpoint; empty if all could read their part."""
        said = self._hosts.barrier(f"checkpoint at step {step}", problem or "-")
        for index, other in enumerate(said):
            if other != "-":
                return other if self._hosts.count == 1 else f"{self._hosts.name(index)}: {other}"
        return ""

    def _remove_damaged(self) -> None:
        """Remove what `restore` passed over, and the weights from there on: Orbax saves no step before the newest.

        Weights were written beside what is damaged, or before a kill that left no state beside them; training comes by
        their steps again.
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
        """Return when everything that was saved is stored, or has failed and has been reported."""
        if self._reopen:
            return
        with self._failing_in_one_line():
            self._weights.wait_until_finished()
            self._resume.wait_until_finished()

    def close(self) -> None:
        """Finish writing and end the threads."""
        said = self._failed or sys.exc_info()[0] is not None
        error = self._close_managers()
        if error is not None and not said:
            raise error

    def _close_managers(self) -> Exception | None:
        """End the threads; returns what could not be written."""
        error: Exception | None = None
        for manager in (self._weights, self._resume):
            try:
                with self._failing_in_one_line():
                    manager.close()
            except (CheckpointError, BucketError) as failed:
                error = failed
        if self._failed:
            gc.collect()  # what Orbax has begun ends now, while its complaints are not printed
        return error

    @contextmanager
    def _failing_in_one_line(self) -> Generator[None, None, None]:
        """Say of an error of Orbax what it is about, and what there is."""
        try:
            yield
        except Exception as error:  # Orbax and tensorstore raise what they like
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


def _remove_half_copied(run: Folder) -> None:
    """Remove checkpoints that a copy of the run was cut off in; Orbax takes every folder for a whole one."""
    if run.read(COPYING) is None:
        return
    names = run.within(FOLDER).names()
    steps = {"/".join(name.split("/")[:2]) for name in names if name.count("/") >= 2}
    for step in steps:
        if f"{step}/{COMMITTED}" not in names:
            run.store.delete_folder(f"{run.path}/{FOLDER}/{step}")
    run.delete(COPYING)


def weights_steps(run: Folder) -> list[int]:
    """Steps of a run's whole weights checkpoints, ascending."""
    found = (name.split("/")[0] for name in run.within(f"{FOLDER}/weights").names(f"*/{COMMITTED}"))
    return sorted(int(step) for step in found if step.isdecimal())


def resume_steps(run: Folder) -> list[int]:
    """Steps that a run can resume from, ascending."""
    found = (name.split("/")[0] for name in run.within(f"{FOLDER}/resume").names(f"*/{COMMITTED}"))
    return sorted(int(step) for step in found if step.isdecimal())


def saved_steps(run: Folder) -> list[int]:
    """Steps of a run's whole checkpoints of both kinds, ascending."""
    found = (name.split("/")[1] for name in run.within(FOLDER).names(f"*/*/{COMMITTED}"))
    return sorted({int(step) for step in found if step.isdecimal()})


def restore_weights(run: Folder, step: int, like: dict[str, Any]) -> tuple[dict[str, Any], CheckpointMeta]:
    """A weights checkpoint of a run, as a tree like `weights_tree` makes."""
    steps = weights_steps(run)
    if step not in steps:
        have = f"there are: {', '.join(map(str, steps))}" if steps else "the run has none yet"
        raise CheckpointError(f"{run}: no weights checkpoint at step {step} ({have})")
    folder = run.within(f"{FOLDER}/weights")
    manager = _manager(folder, None, create=False)
    try:
        return _restore(manager, step, like, folder.where(str(step)))
    except CheckpointError as error:
        others = ", ".join(str(other) for other in steps if other != step)
        raise CheckpointError(f"{error}" + (f"; there are others: {others}" if others else "")) from error
    finally:
        manager.close()


def write_weights(run: Folder, tree: dict[str, Any], meta: CheckpointMeta) -> None:
    """Write one weights checkpoint of a run that nobody trains, from a tree as `weights_tree` makes."""
    manager = _manager(run.within(f"{FOLDER}/weights"), None)
    content = with_digest({**asdict(meta), "fingerprints": fingerprints(tree)})
    items = ocp.args.Composite(
        state=ocp.args.StandardSave(tree),  # pyright: ignore[reportCallIssue]
        meta=ocp.args.JsonSave(content),  # pyright: ignore[reportCallIssue]
    )
    try:
        manager.save(meta.step, args=items)
        manager.close()
    except Exception as error:  # Orbax and tensorstore raise what they like
        kind = BucketError if unreachable(error) else CheckpointError
        reason = "no space left; free some" if is_full(error) else _first_line(error)
        raise kind(f"{run}: the checkpoint could not be written ({reason})") from error


def _manager(folder: Folder, keep: Keep | None, *, create: bool = True) -> ocp.CheckpointManager:
    """A manager that writes, or without `create` only reads."""
    let_work_be_given_up()
    options = ocp.CheckpointManagerOptions(
        preservation_policy=keep,
        create=create,
        cleanup_tmp_directories=create,
        multiprocessing_options=ocp.options.MultiprocessingOptions(barrier_sync_key_prefix=folder.name),
        enable_async_checkpointing=create,
    )
    return ocp.CheckpointManager(folder.uri(), options=options, item_names=("state", "meta"))


def _restore(
    manager: ocp.CheckpointManager, step: int, like: Any, shown: str
) -> tuple[dict[str, Any], CheckpointMeta]:
    """Read a checkpoint and prove that it is what was saved."""
    tree, expected, meta = _read(manager, step, like, shown)
    if problem := _wrong_arrays(tree, expected, shown):
        raise CheckpointError(problem)
    return tree, meta


def _read(
    manager: ocp.CheckpointManager, step: int, like: Any, shown: str
) -> tuple[dict[str, Any], dict[str, int], CheckpointMeta]:
    """A checkpoint's arrays, their fingerprints when they were saved, and its meta."""
    abstract = jax.tree.map(_abstract, like)
    try:
        restored = manager.restore(
            step,
            args=ocp.args.Composite(
                state=ocp.args.StandardRestore(abstract),  # pyright: ignore[reportCallIssue]
                meta=ocp.args.JsonRestore(),
            ),
        )
        tree, content = restored["state"], restored["meta"]
    except Exception as error:  # Orbax and tensorstore raise what they like
        if isinstance(error, MemoryError) or (
            isinstance(error, OSError) and not isinstance(error, (FileNotFoundError, NotADirectoryError))
        ):
            raise  # of the machine, and not of what is stored
        if unreachable(error):
            raise BucketError(f"{shown}: could not be read ({_first_line(error)}); try again") from error
        raise CheckpointError(f"{shown}: cannot be read: {_first_line(error)}") from error
    return tree, *_checked_meta(content, step, shown)


def _wrong_arrays(tree: Any, expected: dict[str, int], shown: str) -> str:
    """Which arrays are not those that were saved, for a person; empty if all are."""
    found = fingerprints(tree)
    wrong = [name for name in expected if expected[name] != found.get(name)]
    wrong += sorted(set(found) - set(expected))
    return f"{shown}: arrays are not those that were saved: {', '.join(wrong[:5])}" if wrong else ""


def _checked_meta(content: Any, step: int, shown: str) -> tuple[dict[str, int], CheckpointMeta]:
    """Fingerprints and the rest of a meta, proved to be what was written; format 1 had no digest."""
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


def _abstract(leaf: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=getattr(leaf, "sharding", None))


def is_full(error: BaseException) -> bool:
    """Whether an error is about a disk without space; tensorstore says so in its own words."""
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
    """Keep quiet about the rest of what Orbax was doing where one part has failed: each would print a traceback.

    The error itself is raised, and said in a line. May be called any number of times: it lasts until somebody
    sets another hook for what cannot be raised.
    """
    if not isinstance(sys.unraisablehook, _NotOfOrbax):
        sys.unraisablehook = _NotOfOrbax(sys.unraisablehook)
    logging.getLogger("asyncio").addFilter(_is_of_something_else)
    logging.getLogger("absl").setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class _NotOfOrbax:
    """What hears of an exception that cannot be raised, unless it is of work that Orbax has given up."""

    otherwise: Callable[[sys.UnraisableHookArgs], object]

    def __call__(self, unraisable: sys.UnraisableHookArgs, /) -> None:
        of_orbax = getattr(getattr(unraisable.object, "cr_code", None), "co_filename", "")
        if str(unraisable.exc_value) != "Event loop is closed" and "orbax" not in of_orbax:
            self.otherwise(unraisable)


def _is_of_something_else(record: logging.LogRecord) -> bool:
    return "never retrieved" not in record.getMessage()
