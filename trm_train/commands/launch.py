"""`trm-train launch`: `run` and `batch` on a TPU pod or on hosts with ssh."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from trm_data.command import Exit, Json, Root, emit
from trm_data.errors import DataError
from trm_data.storage.root import Layout, resolve_root
from trm_train.commands.batch import (
    Batch,
    change_of,
    parse_seeds,
    refuse_other_dataset_options_of_batch,
)
from trm_train.commands.common import refuse_dataset_as_experiment
from trm_train.commands.processes import ProcessOptions
from trm_train.commands.run import RunOptions, parse_options, read_options
from trm_train.config.overrides import split_overrides
from trm_train.config.run import check_config, check_extension, planned_steps
from trm_train.errors import LaunchError
from trm_train.experiments.registry import select_experiments
from trm_train.experiments.setting import parse_setting
from trm_train.experiments.sources import parse_source_of, with_puzzles_at_hand

if TYPE_CHECKING:
    from trm_data.storage.store import Folder
    from trm_train.launch.flow import Outcome
    from trm_train.launch.shell import Say, Shell
    from trm_train.launch.source import Source
    from trm_train.launch.target import Target, Work


@dataclass(frozen=True)
class Planned:
    """A run to launch.

    Attributes:
        work: Work of the hosts.
        datasets: Names of its datasets: one, or several for a mixture.
        folder: Folder of the run.
        total_steps: Last step of the run.
        discard: Whether the user asked to discard the run (`--resume never`).
    """

    work: Work
    datasets: tuple[str, ...]
    folder: Folder
    total_steps: int
    discard: bool = False

    @property
    def finished(self) -> bool:
        """Whether its status is finished; False if the status cannot be read."""
        from trm_train.runs.status import read_status

        try:
            status = read_status(self.folder)
        except (DataError, OSError):  # the preflight reports the reason
            return False
        return (
            not self.discard
            and status is not None
            and status.state == "finished"
            and status.step >= self.total_steps
        )


@dataclass(frozen=True, kw_only=True)
class Launch:
    """Train on other machines: find or create them, install this commit, start, watch, resume.

    `run EXPERIMENT` and `batch PATTERN ...` take their own options. A batch trains its runs one after the other, on
    all hosts, and evaluates none. --accelerator is a TPU of Google Cloud, --hosts are machines with ssh;
    docs/buckets-and-hosts.md has a script for Slurm. A preempted TPU is created again; the run resumes from its last
    checkpoint. After Ctrl-C the run continues; the same command watches it again, --stop ends it. Every command is
    printed before it runs.

    For example:

      trm-train launch run exp01c --root gs://bucket/trm --accelerator v4-8 --zone us-central2-b --dry-run
      trm-train launch run exp01c --root gs://bucket/trm --accelerator v4-64 --spot --queued --delete
      trm-train launch batch 'exp01*' --seeds 0,1 --root gs://bucket/trm --accelerator v4-8 --continue-on-failure
      trm-train launch run exp01c --root /shared/trm --hosts host1,me@host2 --extras cuda,gcs
    """

    what: Annotated[Positional[Literal["run", "batch"]], arg(metavar="{run,batch} NAME ... [OPTIONS]")]
    """One run, as trm-train run; or many, as trm-train batch."""
    accelerator: Annotated[str | None, arg(metavar="KIND-SIZE", help_behavior_hint="")] = None
    """TPU of Google Cloud, such as v4-8 or v4-64."""
    zone: Annotated[str | None, arg(metavar="ZONE", help_behavior_hint="")] = None
    """Zone of the TPU (default: the zone of the gcloud configuration)."""
    project: Annotated[str | None, arg(metavar="PROJECT", help_behavior_hint="")] = None
    """Project of the TPU (default: the project of the gcloud configuration)."""
    name: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="")] = None
    """Name of the TPU; an existing one is used (default: trm-KIND-SIZE)."""
    spot: bool = False
    """Use a spot TPU, which is cheaper and may be preempted."""
    queued: bool = False
    """Wait for the TPU in the queue (a queued resource)."""
    runtime: Annotated[str | None, arg(metavar="VERSION", help_behavior_hint="")] = None
    """Software version of the TPU VM (default: the recommended version)."""
    gcloud_create: Annotated[str, arg(metavar="WORDS", help_behavior_hint="")] = ""
    """Further arguments of the gcloud command that creates the TPU, such as --gcloud-create=--internal-ips."""
    hosts: Annotated[str | None, arg(metavar="HOST,...", help_behavior_hint="")] = None
    """Hosts with ssh; the first is the coordinator."""
    port: int = 8476
    """Port of the coordinator."""
    commit: Annotated[str | None, arg(metavar="COMMIT", help_behavior_hint="")] = None
    """Commit to install (default: HEAD of this checkout, which must be clean and pushed)."""
    repository: Annotated[str | None, arg(metavar="URL", help_behavior_hint="")] = None
    """Repository with the commit (default: origin of this checkout)."""
    extras: Annotated[str | None, arg(metavar="EXTRA,...", help_behavior_hint="")] = None
    """Optional parts to install (default: tpu,gcs on TPUs, else gcs; cuda is for GPUs)."""
    restarts: int = 20
    """Maximum number of restarts of a run, after a preemption or a resumable exit."""
    look_s: float = 15.0
    """Polling interval of the hosts, in seconds."""
    detach: bool = False
    """Exit after the start; preemptions are noticed when the same command runs again."""
    stop: bool = False
    """Ask the run to save a checkpoint and end."""
    delete: bool = False
    """Delete the TPU at the end, after success or failure."""
    dry_run: bool = False
    """Print the commands; run only those that ask git for the commit."""
    root: Root = None
    json: Json = False

    def run(self, words: Sequence[str]) -> int:
        """Plan, check all requirements, launch and watch; return the exit code.

        Args:
            words: Arguments after `run` or `batch`, without the options of `Launch`.
        """
        from trm_train.launch.flow import LaunchOptions, check_all, root_problems, run_all, stop
        from trm_train.launch.shell import Shell
        from trm_train.launch.source import find_source

        self._check()
        layout = self._layout()
        runs, go_on = self._plan(words, layout)
        shell = Shell(self._print if self.dry_run else self._say, dry=self.dry_run)
        source, unclear = find_source(self.commit, self.repository, Shell(shell.say))
        if self.dry_run:
            for problem in unclear:
                self._say(f"trm-train: note: {problem}")
            unclear = []
        target = self._target(shell, source)
        how = LaunchOptions(
            restarts=self.restarts,
            look_s=self.look_s,
            detach=self.detach,
            go_on=go_on,
            delete=self.delete,
            dry=self.dry_run,
        )
        say: Say = (lambda _: None) if self.dry_run else self._say
        if self.stop:
            return self._conclude(stop([run.work for run in runs], target, how, say))
        left = runs if self.dry_run else [run for run in runs if not run.finished]
        for run in runs:
            if run not in left:
                self._say(f"{run.work.name}: finished already ({run.total_steps:,} steps)")
        if not left:
            return self._conclude([_done(run) for run in runs])
        roots = (
            []
            if self.dry_run
            else [lambda: root_problems(layout, [name for run in left for name in run.datasets])]
        )
        check_all([lambda: unclear, *roots, target.problems])
        try:
            done = run_all([run.work for run in left], target, how, say, self._show)
        except KeyboardInterrupt:
            self._say(
                "trm-train: the started run continues there; the same command watches it, --stop ends it"
            )
            raise
        return self._conclude([*(_done(run) for run in runs if run not in left), *done])

    def _check(self) -> None:
        if (self.accelerator is None) == (self.hosts is None):
            raise LaunchError("no machines named (expected --accelerator KIND-SIZE or --hosts HOST,...)")
        if self.restarts < 0 or self.look_s <= 0 or not 1 <= self.port <= 65535:
            raise LaunchError("--restarts at least 0, --look-s more than 0, --port from 1 to 65535")
        if self.detach and (self.delete or self.what == "batch"):
            raise LaunchError("--detach: not with --delete or a batch, which must be watched")
        of_tpus = {
            "--zone": self.zone,
            "--project": self.project,
            "--name": self.name,
            "--runtime": self.runtime,
        }
        of_tpus |= {"--spot": self.spot, "--queued": self.queued, "--delete": self.delete}
        given = [option for option, value in of_tpus.items() if value]
        if self.accelerator is None and given:
            raise LaunchError(f"{given[0]}: is for TPUs (--accelerator)")

    def _layout(self) -> Layout:
        layout = resolve_root(self.root)
        of_here = layout.store.local
        if of_here and self.accelerator is not None and not (self.root and Path(self.root).is_absolute()):
            raise LaunchError(
                f"--root {self.root or layout.place}: a TPU needs a permanent root (expected gs://bucket/prefix, or "
                f"the absolute path of a folder that is mounted on every host)"
            )
        return layout

    def _plan(self, words: Sequence[str], layout: Layout) -> tuple[list[Planned], bool]:
        """Return the runs in order, and whether the next run starts after a failure."""
        if self.what == "run":
            return [_plan_run(words, layout)], False
        return _plan_batch(words, layout)

    def _target(self, shell: Shell, source: Source) -> Target:
        from trm_train.launch.ssh import SshHosts, parse_hosts
        from trm_train.launch.tpu import Tpu, TpuRequest

        extras = _extras(self.extras, "tpu,gcs" if self.accelerator else "gcs")
        if self.hosts is not None:
            return SshHosts(shell, source, extras, hosts=parse_hosts(self.hosts), port=self.port)
        assert self.accelerator is not None
        request = TpuRequest(
            name=self.name or f"trm-{self.accelerator}",
            accelerator=self.accelerator,
            zone=self.zone,
            project=self.project,
            runtime=self.runtime,
            spot=self.spot,
            queued=self.queued,
            create=tuple(shlex.split(self.gcloud_create)),
        )
        return Tpu(shell, source, extras, request)

    def _conclude(self, outcomes: Sequence[Outcome]) -> int:
        emit(outcomes, (), as_json=self.json)
        codes = [int(outcome.code) for outcome in outcomes if outcome.code]
        if self.what == "run":
            return codes[0] if codes else Exit.DONE
        return Exit.FOUND if codes else Exit.DONE

    def _say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def _print(self, text: str) -> None:
        print(text, file=sys.stderr if self.json else sys.stdout, flush=True)

    def _show(self, text: str) -> None:
        print(text, end="", file=sys.stderr if self.json else sys.stdout, flush=True)


def _plan_run(words: Sequence[str], layout: Layout) -> Planned:
    """Plan one run from the arguments of `trm-train run`."""
    from trm_train.launch.target import Work
    from trm_train.runs.record import run_folder, run_name

    if not words or words[0].startswith("-"):
        raise LaunchError(
            "no experiment named (expected trm-train launch run EXPERIMENT [options]; trm-train list "
            "shows them)"
        )
    name, *rest = words
    item, options = read_options("trm-train launch run", name, rest)
    _refuse(options, "build", "build the dataset once (trm-data build NAME)")
    _refuse(options, "init_from", "the weights that it names would be read on the hosts (trm-train run)")
    for given in ("distributed", "coordinator", "num_processes", "process_id"):
        _refuse(options.processes, given, "a launch says it to its hosts")
    config, said = with_puzzles_at_hand(
        options.config, parse_source_of(options.source, [options.config]), layout
    )
    if said is not None:
        print(f"trm-train: note: {name}: {said}", file=sys.stderr)
    check_config(config)
    if options.extend is not None:
        check_extension(config, options.extend)
    return Planned(
        work=Work(run_name(item.name, config), ("run", name, *rest, "--root", layout.place)),
        datasets=config.data.names,
        folder=run_folder(layout, item, config),
        total_steps=planned_steps(config, options.extend),
        discard=options.resume == "never",
    )


def _refuse(options: RunOptions | ProcessOptions | Batch, name: str, instead: str) -> None:
    field = next(field for field in fields(options) if field.name == name)
    if getattr(options, name) != field.default:
        raise LaunchError(f"--{name.replace('_', '-')}: not with launch; {instead}")


def _plan_batch(words: Sequence[str], layout: Layout) -> tuple[list[Planned], bool]:
    """Plan the runs of a batch from its arguments; also return whether to continue after a failure."""
    from trm_train.batch.plan import plan_batch
    from trm_train.launch.target import Work

    overrides, others = split_overrides(words)
    refuse_other_dataset_options_of_batch("trm-train launch batch", others)
    batch = parse_options(Batch(patterns=()), "trm-train launch batch", None, others)
    if not batch.patterns:
        raise LaunchError(
            "no experiments named (expected trm-train launch batch PATTERN ...; trm-train list shows them)"
        )
    _refuse(batch, "jobs", "runs have all hosts, one after the other")
    _refuse(batch, "no_build", "nothing is built anyway")
    for name in ("limit", "log_dir", "wide"):
        _refuse(batch, name, "nothing is tested: trm-eval run RUN, or trm-train batch, does that afterwards")
    refuse_dataset_as_experiment("trm-train launch batch", batch.patterns, layout)
    items = select_experiments(batch.patterns, parse_setting(batch.scale, batch.data))
    sources = parse_source_of(batch.source, [item.make() for item in items])
    more = [*overrides, *(["--source", batch.source] if batch.source else [])]
    planned: list[Planned] = []
    for run in plan_batch(items, parse_seeds(batch.seeds), layout, change_of(overrides), sources):
        if run.note is not None:
            print(f"trm-train: note: {run.experiment.name}: {run.note}", file=sys.stderr)
        setting = run.experiment.setting()
        given = ["run", run.names[0], *setting.options]
        given += ["--seed", str(run.config.seed), "--tracking", batch.tracking, "--root", layout.place, *more]
        planned.append(Planned(Work(run.run, tuple(given)), run.datasets, run.folder, run.config.total_steps))
    return planned, batch.continue_on_failure


def _extras(given: str | None, usual: str) -> list[str]:
    extras = (usual if given is None else given).split(",")
    for extra in extras:
        if not extra.isalnum() or not extra.isascii():
            raise LaunchError(f"--extras {given}: expected names separated by commas, such as cuda,gcs")
    return extras


def _done(run: Planned) -> Outcome:
    from trm_train.launch.flow import Outcome

    return Outcome(run=run.work.name, state="done")
