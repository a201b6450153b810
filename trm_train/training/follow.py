"""What the processes of a run keep besides process 0: a log, a heartbeat, and an eye on the loss and on time.

Process 0 alone writes metrics, status and record and tells the tracker (`observe.py`). All processes see the same
metrics, since those are sums over all devices.

    logs/worker-1-<start>-000000.log       lines that a person reads, in parts
    heartbeats/worker-1.json               step, time, share of it spent waiting for batches: `Heartbeat`
"""

from __future__ import annotations

import math
import threading
import time
from typing import Any

from trm_data.command import Exit
from trm_data.errors import BucketError
from trm_data.interrupt import end_now
from trm_data.storage.store import Folder
from trm_train.errors import NotFiniteError
from trm_train.hosts.together import Hosts
from trm_train.runs.heartbeat import Heart
from trm_train.runs.record import LOGS, RunRecord
from trm_train.training.observe import LAST_WORDS_S
from trm_train.training.pace import Pace
from trm_train.training.reports import Reports, now
from trm_train.training.watchdog import Watchdog


class Follower:
    """Notes every step of one start of a run, in a process that is not the first.

    Args:
        folder: The run's folder.
        record: What it is.
        start: Step it goes on from.
        pace: The clock of its steps.
        hosts: All processes.

    Attributes:
        pace: The same.
        watchdog: Says when it stands still, and ends it.
        scores: Exact accuracy of the validations of this start, by step; process 0 knows those before.
        seconds: Training time is process 0's to count.
        too_slow: As is speed.
    """

    seconds = 0.0
    too_slow = False

    def __init__(self, folder: Folder, record: RunRecord, start: int, pace: Pace, hosts: Hosts) -> None:
        self._folder, self._record, self._hosts = folder, record, hosts
        self._slots, self._log_every = record.config.data.global_batch_size, record.config.execution.log_every
        self._heart = Heart(folder, hosts.index, hosts.count, start)
        self._begun_at = now()
        self._step = start
        self._log: list[str] = []
        self._parts = 0
        self._flushed, self._reports = time.monotonic(), Reports()
        self.pace = pace
        self.scores: dict[int, float | None] = {}
        self.watchdog = Watchdog(record.config.execution.stall_s, self._stands_still, self._ends_still)

    @property
    def lost(self) -> BucketError | None:
        """Why the bucket is taken to be away; None while it is not."""
        return self._reports.lost

    def begin(self) -> None:
        """The first step is about to be taken."""
        begins = f"goes on from step {self._step:,}" if self._step else "begins"
        self._note(
            f"{self._record.run} {begins}; {self._hosts.name(self._hosts.index)} of {self._hosts.count}"
        )
        self.flush("running")
        self.pace.begin()

    def step(self, step: int, metrics: dict[str, Any]) -> None:
        """Note the metrics of a step.

        Raises:
            NotFiniteError: The loss is no number any more; process 0 says more of it.
        """
        self._step = step
        paced = self.pace.step(step)
        self.watchdog.beat(self.pace.dispatch_s)
        self._heart.step(step, paced)
        loss = float(metrics["lm_loss"]) / self._slots
        if not math.isfinite(loss):
            raise NotFiniteError(f"step {step:,}: the loss is {loss}")
        if step % self._log_every == 0 or step == self._record.total_steps:
            self._note(f"step {step:>6,}  loss {loss:.4f}")
        self._reports.hear()
        if self._reports.due(time.monotonic() - self._flushed):
            self._reports.begin(self._prepared())

    def validated(self, step: int, sums: dict[str, float], by_dataset: object = None) -> None:
        """Note what the validation split gave; process 0 notes it of each dataset of a mixture."""
        count = int(sums["count"])
        self.scores[step] = sums["exact_accuracy"] / count if count else None
        self._note(f"step {step:>6,}  validation: exact {int(sums['exact_accuracy']):,} of {count:,}")

    def flush(self, state: str, reason: str = "") -> None:
        """Write what has come since the last time, and return when it is written."""
        if reason:
            self._note(f"{state}: {reason}")
        self._reports.wait()
        self._prepared()()

    def last_words(self, text: str) -> None:
        """Leave word that another process of the run has failed."""
        self._note(text)
        self._prepared()()

    def end(self, state: str) -> None:
        """Write how it ended."""
        self._note(f"{state} at step {self._step:,}")
        self.flush(state)

    def close(self) -> None:
        """End the threads; what was being written is written."""
        self.watchdog.close()
        self._reports.close()

    def say(self, text: str) -> None:
        """Say something in the log; process 0 has the console."""
        self._note(text)

    def unwritten(self, step: int) -> None:
        """The rows of the metric table are process 0's."""

    def _prepared(self) -> Any:
        """What writes everything up to here."""
        beat = self._heart.prepared()
        lines, self._log = self._log, []
        self._flushed = time.monotonic()

        def write() -> None:
            beat()
            if lines:
                self._folder.write(self._log_name(f"{self._parts:06d}"), "".join(lines).encode())
                self._parts += 1

        return write

    def _stands_still(self, seconds: float) -> None:
        """Say that the run stands still; the watchdog's thread does."""
        self._note(f"step {self._step:>6,}  no step for {seconds:,.0f} s")

    def _ends_still(self, seconds: float) -> None:
        """End a process that stands still; the watchdog's thread does, and waits for nothing that hangs as well."""
        text = f"{now()} stood still for {seconds:,.0f} s after step {self._step:,}, ended\n"
        content = "".join([*self._log, text]).encode()
        telling = threading.Thread(
            target=self._folder.write, args=(self._log_name("stalled"), content), daemon=True
        )
        telling.start()
        telling.join(LAST_WORDS_S)
        self._hosts.say(text.strip())
        end_now(Exit.STALLED)

    def _log_name(self, part: str) -> str:
        return f"{LOGS}/worker-{self._hosts.index}-{self._begun_at.replace(':', '')}-{part}.log"

    def _note(self, line: str) -> None:
        self._log.append(f"{now()} {line}\n")
