"""Recorder of process 0: metrics, status.json, console, and the copy of the metrics at Weights & Biases.

metrics/000000101-000000160.parquet    rows of the table `train_metrics`, the source of truth
status.json                            state, step, speed, last loss, heartbeat: `Status`

Each run has its own id at Weights & Biases, drawn at its first start and stored in its folder. So a run keeps its id
after a restart on any machine. A run of the same name under another root, or one started over (`--resume never`), gets
another id. Without a login, the run is stored offline in its folder on this machine; `wandb sync` uploads it.
"""

from __future__ import annotations

import math
import os
import re
import secrets
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol

from typing_extensions import override

from trm_data.storage.store import Folder, Lease
from trm_train.checkpoint.manager import resume_steps
from trm_train.errors import NotFiniteError
from trm_train.hosts import Hosts
from trm_train.mesh import held_bytes
from trm_train.metrics import MetricTable, merge_many
from trm_train.runs.record import TRACKING_FILE, RunRecord
from trm_train.runs.status import STATUS_FILE, State, Status, now, read_status, status_bytes
from trm_train.step.compile import CompiledStep
from trm_train.step.train import BY_TASK
from trm_train.training.observe import Observer, Pace

if TYPE_CHECKING:
    import wandb

TrackingMode = Literal["wandb", "none"]
ID = re.compile(r"[A-Za-z0-9_-]{1,128}")


def start_wandb(folder: Folder, record: RunRecord) -> wandb.Run:
    """Start or continue the wandb run of a run, which receives a copy of its metrics."""
    import wandb

    online = is_online()
    return wandb.init(
        project=os.environ.get("WANDB_PROJECT") or f"trm-{record.group}",
        group=record.experiment,
        tags=[tag for tag in (record.scale, record.data) if tag],
        name=record.run,
        id=tracking_id(folder, record.run),
        resume="allow" if online else None,
        config=_flat(record),
        dir=folder.working("wandb").parent,
        mode=os.environ.get("WANDB_MODE") or ("online" if online else "offline"),  # type: ignore[arg-type]
        # wandb would record the git remote, whose URL may contain a token; the config already has the code version
        settings=wandb.Settings(console="off", silent=True, disable_git=True),
    )


def tracking_id(folder: Folder, run: str) -> str:
    """Return the id of a run; draw and store one if it has none."""
    stored = folder.read(TRACKING_FILE)
    found = "" if stored is None else stored.decode("utf-8", "replace").strip()
    if not ID.fullmatch(found):
        found = f"{run}-{secrets.token_hex(4)}"
        folder.write(TRACKING_FILE, f"{found}\n".encode())
    return found


def is_online() -> bool:
    """Return whether there is a wandb login, so that metrics are uploaded during the run."""
    return bool(os.environ.get("WANDB_API_KEY")) or _logged_in()


def _logged_in() -> bool:
    import netrc

    try:
        entry = netrc.netrc().authenticators("api.wandb.ai")
    except (OSError, netrc.NetrcParseError):
        return False
    return entry is not None


def _flat(record: RunRecord) -> dict[str, Any]:
    from trm_train.config.run import config_to_json

    return {
        **config_to_json(record.config),
        "identity": record.identity,
        "content_digest": record.content_digest,
    }


VAIN_SKIPS = 20
"""Consecutive float16 steps that overflow at the smallest loss scale before the run ends."""
FIRST_LINE_S = 10.0
"""Time after which the first finished step is shown, even if `execution.log_every` steps are not done (s)."""
LAST_LOSSES = 8
"""Number of last losses shown after a non-finite value, which they include."""


class Console(Protocol):
    """Console that shows the progress of a run; each method returns lines for the log."""

    def begin(self, record: RunRecord, folder: Folder, start_step: int, compiled: CompiledStep) -> list[str]:
        """Show that the run starts at `start_step`."""
        ...

    def note(self, text: str) -> list[str]:
        """Show a message."""
        ...

    def step(self, step: int) -> None:
        """Show that a step is done."""
        ...

    def window(self, step: int, rows_loaded: int, steps: int, metrics: dict[str, float]) -> list[str]:
        """Show means over the examples that ended in the `steps` steps since the last window."""
        ...

    def validated(self, step: int, metrics: dict[str, float]) -> list[str]:
        """Show the metrics of a validation."""
        ...


class Recorder(Observer):
    """Records every step of one start of a run, in process 0.

    Args:
        folder: The run's folder.
        record: The run's record.
        start: Step that the run starts from.
        pace: Timer of the steps.
        hosts: All processes.
        rates: Learning rate of the network at every step, from step 1.
        compiled: The training step.
        console: Console that shows progress.
        tracker: The wandb run, or None.
        lease: Lease of the folder.
    """

    def __init__(
        self,
        folder: Folder,
        record: RunRecord,
        start: int,
        pace: Pace,
        hosts: Hosts,
        rates: Any,
        compiled: CompiledStep,
        console: Console,
        tracker: wandb.Run | None,
        lease: Lease,
    ) -> None:
        super().__init__(folder, record, start, pace, hosts)
        self._rates, self._compiled = rates, compiled
        self._console, self._tracker, self._lease = console, tracker, lease
        self._table = MetricTable(folder, start)
        self.scores = self._table.scores
        before = read_status(self._folder)
        self._optimal_share = None if before is None else before.optimal_share
        self._merge_metrics()
        self._begun = time.perf_counter()
        self._status_step = start
        self._loss: float | None = None
        self._skipped: int | None = None
        self._skipped_in_vain = 0
        self._speed = 0.0
        self._window: dict[str, float] = {}
        self._window_steps = 0
        self._shown = False
        self._losses: deque[float] = deque(maxlen=LAST_LOSSES)
        self._memory = held_bytes()

    @property
    @override
    def seconds(self) -> float:
        """Training time over all starts (s)."""
        return self._table.seconds + time.perf_counter() - self._begun

    @override
    def begin(self) -> None:
        self._begun = self._reported = time.perf_counter()
        super().begin()

    @override
    def validated(
        self, step: int, sums: dict[str, float], by_dataset: dict[str, dict[str, float]] | None = None
    ) -> None:
        count = int(sums["count"])
        shared = {"step": step, "split": "validation", "rows_loaded": self._table.rows_loaded}
        shared["seconds"] = self.seconds
        for dataset, found in {None: sums, **(by_dataset or {})}.items():
            row = {**shared, "dataset": dataset, "global_batch_size": int(found["count"]), **found}
            for name in ("count", "exact_accuracy", "q_halt_accuracy", "steps", "steps_squared"):
                row[name] = int(found[name])
            if "optimal" in found:
                row["optimal"] = int(found["optimal"])
            self._table.add(row)
        shown = means(sums, count)
        self.scores[step] = shown["exact_accuracy"] if count else None
        if "optimal_share" in shown and count:
            self._optimal_share = max(self._optimal_share or 0.0, shown["optimal_share"])
        self._note(*self._console.validated(step, shown))
        if self._tracker is not None:
            self._tracker.log({f"validation/{name}": value for name, value in shown.items()}, step=step)

    @override
    def end(self, state: State) -> None:
        """Report how the run ended, unless `status.json` already says so."""
        there = read_status(self._folder)
        if (
            self._step > self._status_step
            or there is None
            or (there.state, there.step) != (state, self._step)
        ):
            self.flush(state)
        self._merge_metrics()

    @override
    def say(self, text: str) -> None:
        """Show a line on the console and write it to the log."""
        self._note(*self._console.note(text))

    @override
    def _note_begin(self) -> None:
        self._note(*self._console.begin(self._record, self._folder, self._start, self._compiled))

    @override
    def _note_step(self, step: int, metrics: dict[str, Any], paced: dict[str, Any]) -> None:
        by_task = metrics.get(BY_TASK, {})
        values = {name: value.item() for name, value in metrics.items() if name != BY_TASK}
        slots = self._config.data.global_batch_size
        # A slot loads a row after it halts: all slots at the first step, then those that halted at the step before.
        if step == 1:
            self._table.rows_loaded += slots
        rows_loaded = self._table.rows_loaded
        row = {"step": step, "split": "train", "rows_loaded": rows_loaded, "global_batch_size": slots}
        row |= {"lr": float(self._rates[step - 1]), "seconds": self.seconds}
        self._memory = held_bytes()
        self._table.add(row | values | paced | {"device_memory_bytes": self._memory})
        self._add_by_task(row, by_task)
        self._table.rows_loaded += int(values["halted_slots"])
        self._check_finite(step, values, values["lm_loss"] / slots)
        for name, value in values.items():
            self._window[name] = self._window.get(name, 0.0) + value
        self._window_steps += 1
        slow = not self._shown and time.perf_counter() - self._begun > FIRST_LINE_S
        if step % self._config.execution.log_every == 0 or step == self._record.total_steps or slow:
            self._report_window(step, rows_loaded)
        else:
            self._console.step(step)

    def _add_by_task(self, row: dict[str, Any], by_task: dict[str, Any]) -> None:
        """Add one row for each dataset of a mixture."""
        shared = {name: row[name] for name in ("step", "split", "lr", "seconds")}
        for task, name in enumerate(self._config.data.names if by_task else ()):
            sums = {metric: values[task].item() for metric, values in by_task.items()}
            slots = sums.pop("slots")
            self._table.add(shared | {"dataset": name, "global_batch_size": slots} | sums)

    def _check_finite(self, step: int, values: dict[str, float], loss: float) -> None:
        """Raise NotFiniteError if the loss or the update is not finite."""
        self._loss = loss
        self._losses.append(loss)
        if not math.isfinite(values["lm_loss"]):
            self._not_finite(f"the loss is {values['lm_loss']}")
        if not math.isfinite(values["update_norm"]):  # before a checkpoint contains these parameters
            self._not_finite(f"the change of the parameters is {values['update_norm']}")
        self._watch_scale(step, values.get("loss_scale"), int(values.get("skipped", 0)))

    def _watch_scale(self, step: int, scale: float | None, skipped: int) -> None:
        """Report a skipped float16 step; raise NotFiniteError after too many skips at the smallest loss scale."""
        if scale is None:
            return
        if self._skipped is not None and skipped > self._skipped:
            self.say(f"step {step:>6,}  overflow: skipped, loss scale {scale:g} ({skipped:,} so far)")
            self._skipped_in_vain = self._skipped_in_vain + 1 if scale <= 1.0 else 0
        elif self._skipped is not None:
            self._skipped_in_vain = 0
        self._skipped = skipped
        if self._skipped_in_vain >= VAIN_SKIPS:
            self._not_finite(f"float16 overflows at any loss scale, for {VAIN_SKIPS} steps")

    def _not_finite(self, what: str) -> None:
        first, losses = self._step - len(self._losses) + 1, ", ".join(f"{loss:.4g}" for loss in self._losses)
        text = f"step {self._step:,}: {what} (loss of steps {first:,} to {self._step:,}: {losses})"
        if self._tracker is not None:
            self._tracker.alert(title="no number", text=text)
        raise NotFiniteError(text)

    def _report_window(self, step: int, rows_loaded: int) -> None:
        """Send the means of the steps since the last window to the console and the tracker."""
        steps, slots = self._window_steps, self._config.data.global_batch_size
        shown = means(self._window, steps * slots)
        self._note(*self._console.window(step, rows_loaded, steps, shown))
        rates = self.pace.window(slots)
        rates |= {name: self._window[name] / steps for name in ("grad_norm", "update_norm")}
        if self._memory is not None:
            rates["device_memory_bytes"] = float(self._memory)
        if self._tracker is not None:
            self._tracker.log({f"train/{name}": value for name, value in (shown | rates).items()}, step=step)
        self._window, self._window_steps, self._shown = {}, 0, True

    def _merge_metrics(self) -> None:
        """Merge the parts of the metric table, up to the oldest step that the run can resume from."""
        merge_many(self._folder, min(resume_steps(self._folder), default=None), self._lease.check)

    @override
    def _prepare(self, state: State, reason: str = "") -> Callable[[], None]:
        slots = (self._step - self._status_step) * self._config.data.global_batch_size
        if slots:
            self._speed = slots / max(time.perf_counter() - self._reported, 1e-9)
        self._status_step = self._step
        status = status_bytes(self._status(state, reason))
        self._table.take_part(self._step)
        write_log = super()._prepare(state, reason)

        def write() -> None:
            self._lease.check()
            self._table.write_parts()
            write_log()
            self._folder.write(STATUS_FILE, status)

        return write

    def _status(self, state: State, reason: str) -> Status:
        return Status(
            state=state,
            step=self._step,
            total_steps=self._record.total_steps,
            examples_per_s=round(self._speed, 3),
            loss=self._loss if self._loss is not None and math.isfinite(self._loss) else None,
            heartbeat=now(),
            seconds=round(self.seconds, 3),
            compile_s=round(self._compiled.seconds, 3),
            host=socket.gethostname(),
            process=os.getpid(),
            started_at=self._started_at,
            reason=reason,
            exact_accuracy=max((score for score in self.scores.values() if score is not None), default=None),
            optimal_share=self._optimal_share,
            workers=self._hosts.count,
        )


def means(sums: dict[str, float], loss_rows: int) -> dict[str, float]:
    """Divide metric sums: accuracies and steps by `count`, losses by `loss_rows`."""
    count = sums["count"]
    shown = {"count": float(count)}
    for name in ("accuracy", "exact_accuracy", "q_halt_accuracy", "steps"):
        shown[name] = sums[name] / count if count else float("nan")
    if "optimal" in sums:
        shown["optimal_share"] = sums["optimal"] / count if count else float("nan")
    spread = sums["steps_squared"] / count - shown["steps"] ** 2 if count else float("nan")
    shown["steps_std"] = math.sqrt(max(spread, 0.0)) if count else spread
    for name in ("lm_loss", "q_halt_loss"):
        shown[name] = sums[name] / max(loss_rows, 1)
    return shown
