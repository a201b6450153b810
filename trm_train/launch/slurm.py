"""A job of Slurm, submitted from a machine that has `sbatch` and shares the home with the nodes.

Slurm itself queues it again when its nodes are taken away, so that a job that waits has not been lost. One that is
neither in the queue nor has left its codes is lost, and is submitted again.
"""

from __future__ import annotations

import getpass
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trm_data.command import Exit
from trm_train.errors import LaunchError
from trm_train.launch import scripts
from trm_train.launch.on_hosts import INSTALL_S
from trm_train.launch.shell import Shell
from trm_train.launch.source import Source
from trm_train.launch.target import HostSeen, Seen, Work

PROGRAMS = ("sbatch", "squeue", "scancel", "srun")
TASK = """\
trap : TERM; "$@"; code=$?
echo $code > code-$SLURM_PROCID.new; mv code-$SLURM_PROCID.new code-$SLURM_PROCID; exit $code"""
"""Of every node; a signal to the whole job ends the run, and then this writes its code."""
ENDING = ("COMPLETING", "RUNNING", "STAGE_OUT")
CODE = re.compile(r"code-[0-9]+")


@dataclass(frozen=True)
class SlurmRequest:
    """The nodes that are asked for.

    Attributes:
        nodes: How many, with one process each.
        sbatch: Further words for sbatch, as of partition, time and devices.
    """

    nodes: int = 1
    sbatch: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise LaunchError(f"--nodes {self.nodes}: at least 1")


class Slurm:
    """Jobs of Slurm.

    Args:
        shell: Runs commands.
        source: What is installed.
        extras: Parts of the package that are optional.
        request: What is asked for.
        home: The home that all nodes share.
    """

    def __init__(
        self,
        shell: Shell,
        source: Source,
        extras: Sequence[str],
        request: SlurmRequest,
        home: Path | None = None,
    ) -> None:
        self._shell = shell
        self._source = source
        self._extras = extras
        self._request = request
        self._home = Path.home() if home is None else home

    @property
    def place(self) -> str:
        """How many nodes."""
        return f"{self._request.nodes} nodes of Slurm"

    def problems(self) -> list[str]:
        """Programs of Slurm that are missing, or do not answer."""
        missing = [name for name in PROGRAMS if shutil.which(name) is None and not self._shell.dry]
        if missing:
            return [f"{', '.join(missing)}: not on the PATH; launch from a machine that submits jobs"]
        asked = self._shell.ask(["squeue", "--noheader", f"--user={_user()}", "--format=%T"])
        return [f"Slurm does not answer: {asked.reason}"] if asked.code else []

    def ensure(self) -> None:
        """Nothing: Slurm has the nodes."""

    def install(self) -> None:
        """Install the commit in the shared home, unless it is there."""
        script = scripts.install(self._source, self._extras)
        self._shell.run(["bash", "-c", script], limit_s=INSTALL_S)

    def start(self, work: Work) -> None:
        """Submit the job; of two of one name the second would wait for the first."""
        folder = self._folder(work)
        words = [*work.words, *(["--distributed"] if self._request.nodes > 1 else [])]
        task = f"{shlex.quote(TASK)} trm-launch {scripts.program(self._source)} {shlex.join(words)}"
        there = shlex.quote(str(folder))
        self._shell.run(["bash", "-c", f"mkdir -p {there} && cd {there} && rm -f stop code-*"])
        self._shell.run(
            [
                *("sbatch", "--parsable", f"--job-name={_job(work)}", f"--nodes={self._request.nodes}"),
                *("--ntasks-per-node=1", "--requeue", "--dependency=singleton", "--open-mode=append"),
                *(f"--chdir={folder}", f"--output={folder / 'log'}", *self._request.sbatch),
                f"--wrap=rm -f code-*; srun bash -c {task}",
            ]
        )

    def look(self, work: Work) -> Seen:
        """Whether the job waits or runs, and else with which codes it ended."""
        asked = self._shell.ask([*self._queue(work), "--format=%T %R"], once=f"look {work.name}")
        if asked.code:
            return Seen(waiting=f"an answer of Slurm: {asked.reason}")
        rows = [line.split(maxsplit=1) for line in asked.out.splitlines() if line.strip()]
        if any(row[0] in ENDING for row in rows):
            return Seen(hosts=(HostSeen(self.place, "running"),))
        if rows:
            return Seen(waiting=f"Slurm: {' '.join(rows[0])}")
        return Seen(hosts=self._ended(work))

    def log(self, work: Work, place: str) -> tuple[str, str]:
        """What the job has logged since a place in its log, and the place it ends at."""
        path = self._folder(work) / "log"
        if self._shell.dry or not path.exists():
            return "", place
        with path.open("rb") as file:
            file.seek(int(place or 0))
            content = file.read(scripts.CHUNK_BYTES)
            return content.decode("utf-8", "replace"), str(file.tell())

    def stop(self, work: Work) -> None:
        """Ask the run to save a checkpoint and end; a job that waits is cancelled."""
        waits = bool(self.look(work).waiting)
        self._shell.run(["touch", str(self._folder(work) / "stop")])
        signal = [] if waits else ["--signal=TERM"]
        self._shell.run(["scancel", *signal, f"--user={_user()}", f"--name={_job(work)}"])

    def release(self) -> None:
        """Nothing: a job that has ended holds nothing."""

    def leftover(self) -> str:
        """Nothing."""
        return ""

    def _ended(self, work: Work) -> tuple[HostSeen, ...]:
        folder = self._folder(work)
        there = sorted(folder.glob("code-*")) if folder.is_dir() else []
        codes = {path.name: path.read_text().strip() for path in there if CODE.fullmatch(path.name)}
        stopped = (folder / "stop").exists()  # a job that waited has no code then
        hosts: list[HostSeen] = []
        for index in range(self._request.nodes):
            code = codes.get(f"code-{index}", str(int(Exit.TERMINATED)) if stopped else "")
            if code.isdecimal():
                hosts.append(HostSeen(f"node {index}", "stopped" if stopped else "ended", int(code)))
            else:
                hosts.append(HostSeen(f"node {index}", "absent"))
        return tuple(hosts)

    def _queue(self, work: Work) -> list[str]:
        return ["squeue", "--noheader", f"--user={_user()}", f"--name={_job(work)}"]

    def _folder(self, work: Work) -> Path:
        return self._home / "trm-lab" / "launch" / work.name


def _job(work: Work) -> str:
    return f"trm-{work.name}"


def _user() -> str:
    return getpass.getuser()
