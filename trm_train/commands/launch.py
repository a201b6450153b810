"""`trm-train launch`: trains a run on a TPU of Google Cloud."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from trm_data.command import Json, Root, emit
from trm_data.errors import DataError, Exit
from trm_data.storage.root import Layout, resolve_root
from trm_train.commands.common import ProcessOptions
from trm_train.commands.run import RunOptions, read_options
from trm_train.config.run import RunConfig, check_config, check_extension, planned_steps
from trm_train.errors import LaunchError

if TYPE_CHECKING:
    from trm_data.storage.store import Folder
    from trm_train.launch.flow import Outcome, Tpu


@dataclass(frozen=True, kw_only=True)
class Launch:
    """Train a run on a TPU: find or create it, install this commit, start, watch, resume.

    `run EXPERIMENT` takes the options of trm-train run. A preempted TPU is created again; the run resumes from its last
    checkpoint. After Ctrl-C the run continues; the same command watches it again, --stop ends it. Every command is
    printed before it runs. On other machines, start the same `trm-train run` on every host
    (docs/buckets-and-hosts.md).

    For example:

      trm-train launch run exp01c --root gs://bucket/trm --accelerator v4-8 --zone us-central2-b --dry-run
      trm-train launch run exp01c --root gs://bucket/trm --accelerator v4-64 --spot --queued --delete
    """

    what: Annotated[Positional[Literal["run"]], arg(metavar="run EXPERIMENT [OPTIONS]")]
    """The run, as for trm-train run."""
    accelerator: Annotated[str, arg(metavar="KIND-SIZE")]
    """TPU of Google Cloud, such as v4-8 or v4-64."""
    zone: Annotated[str | None, arg(metavar="ZONE", help_behavior_hint="")] = None
    """Zone of the TPU (default: the zone of the gcloud configuration)."""
    name: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="")] = None
    """Name of the TPU; an existing one is used (default: trm-KIND-SIZE)."""
    spot: bool = False
    """Use a spot TPU, which is cheaper and may be preempted."""
    queued: bool = False
    """Wait for the TPU in the queue (a queued resource)."""
    gcloud_create: Annotated[str, arg(metavar="WORDS", help_behavior_hint="")] = ""
    """Further arguments of the gcloud command that creates the TPU, such as --gcloud-create=--internal-ips."""
    commit: Annotated[str | None, arg(metavar="HASH", help_behavior_hint="")] = None
    """Commit to install (default: HEAD of this checkout, which must be clean and pushed)."""
    repository: Annotated[str | None, arg(metavar="URL", help_behavior_hint="")] = None
    """Repository with the commit (default: origin of this checkout)."""
    restarts: int = 20
    """Maximum number of restarts of the run, after a preemption or a resumable exit."""
    look_s: float = 15.0
    """Polling interval of the hosts, in seconds."""
    stop: bool = False
    """Ask the run to save a checkpoint and end."""
    delete: bool = False
    """Delete the TPU at the end, after success or failure."""
    dry_run: bool = False
    """Print the commands that create the TPU, install, start and delete; run none."""
    root: Root = None
    json: Json = False

    def run(self, words: Sequence[str]) -> int:
        """Check all requirements, launch and watch; return the exit code.

        Args:
            words: Arguments after `run`, without the options of `Launch`.
        """
        from trm_train.launch.flow import Outcome, Tpu, check_root, stop, train
        from trm_train.launch.scripts import Source, find_source

        if self.restarts < 0 or self.look_s <= 0:
            raise LaunchError("--restarts at least 0, --look-s more than 0")
        layout = self._layout()
        config, run, folder, options = _plan(words, layout)
        steps = planned_steps(config, options.extend)
        again = self.stop or self.dry_run or options.resume == "never"
        if not again and _is_finished(folder, steps):
            print(f"{run}: finished already ({steps:,} steps)", file=sys.stderr)
            return self._conclude(Outcome(run=run, state="done"))
        commit = Source(self.repository or "REPOSITORY", self.commit or "COMMIT")
        tpu = Tpu(
            name=self.name or f"trm-{self.accelerator}",
            accelerator=self.accelerator,
            zone=self.zone,
            spot=self.spot,
            queued=self.queued,
            create=tuple(shlex.split(self.gcloud_create)),
            source=commit if self.dry_run else find_source(self.commit, self.repository),
            run=run,
            words=("run", *words, "--root", layout.place),
            look_s=self.look_s,
            say=lambda text: print(text, file=sys.stderr, flush=True),
        )
        if self.dry_run:
            return self._print(tpu)
        log = sys.stderr if self.json else sys.stdout
        show = partial(print, end="", file=log, flush=True)
        try:
            if not self.stop:
                check_root(layout, config.data.names)
            outcome = stop(tpu, show) if self.stop else train(tpu, self.restarts, show)
        except KeyboardInterrupt:
            tpu.say("trm-train: the started run continues there; the same command watches it, --stop ends it")
            raise
        except LaunchError:
            tpu.say(f"{tpu.place} may still be there, and cost: {shlex.join(tpu.deletion())}")
            raise
        outcome = outcome or Outcome(run=run, state="nothing runs")
        again = f", started again {outcome.restarts}x" if outcome.restarts else ""
        tpu.say(f"{run}: {outcome.state}{f' ({outcome.reason})' if outcome.reason else ''}{again}")
        if self.delete:
            tpu.release()
        elif tpu.state():
            tpu.say(f"{tpu.place} is still there, and costs: {shlex.join(tpu.deletion())}")
        return self._conclude(outcome)

    def _layout(self) -> Layout:
        layout = resolve_root(self.root)
        if layout.store.local and not (self.root and Path(self.root).is_absolute()):
            raise LaunchError(
                f"--root {self.root or layout.place}: a TPU needs a permanent root (expected gs://bucket/prefix, or "
                f"the absolute path of a folder that is mounted on every host)"
            )
        return layout

    def _print(self, tpu: Tpu) -> int:
        from trm_train.launch import scripts

        commands = [
            tpu.creation(),
            tpu.ssh("all", scripts.install(tpu.source)),
            tpu.ssh("all", scripts.start(tpu.run, tpu.source, [*tpu.words, "--distributed"])),
            *([tpu.deletion()] if self.delete else []),
        ]
        for command in commands:
            print(f"$ {shlex.join(command)}")
        return Exit.DONE

    def _conclude(self, outcome: Outcome) -> int:
        emit([outcome], (), as_json=self.json)
        return int(outcome.code)


def _plan(words: Sequence[str], layout: Layout) -> tuple[RunConfig, str, Folder, RunOptions]:
    """Return configuration, name, folder and options of a run, from the arguments of `trm-train run`."""
    from trm_train.runs.record import run_folder, run_name

    if not words or words[0].startswith("-"):
        raise LaunchError("no experiment named (expected trm-train launch run EXPERIMENT [options])")
    item, options = read_options("trm-train launch run", words[0], list(words[1:]))
    if options.build:
        raise LaunchError("--build: not with launch; build the dataset once (trm-data build NAME)")
    if options.init_from is not None:
        raise LaunchError("--init-from: not with launch; its weights would be read on the hosts")
    if options.processes != ProcessOptions():
        raise LaunchError("--distributed, --coordinator, --num-processes, --process-id: not with launch")
    config = options.config
    check_config(config)
    if options.extend is not None:
        check_extension(config, options.extend)
    return config, run_name(item.name, config), run_folder(layout, item, config), options


def _is_finished(folder: Folder, steps: int) -> bool:
    """Return whether the status of a run is finished; False if it cannot be read."""
    from trm_train.runs.status import read_status

    try:
        status = read_status(folder)
    except (DataError, OSError):  # the check of the root reports the reason
        return False
    return status is not None and status.state == "finished" and status.step >= steps
