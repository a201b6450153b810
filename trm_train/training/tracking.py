"""Logs metrics to Weights & Biases. The metric table is the reference; this is a copy.

A run has an id of its own there, drawn at its first start and kept in its folder: the same run resumes after a restart,
on any machine, and neither a run of the same name under another root nor a run that starts over (`--resume never`) is
taken for it. Without a login the run is kept offline in this machine's folder of the run; `wandb sync` uploads it.
"""

from __future__ import annotations

import os
import re
import secrets
from typing import Any, Literal, Protocol

from trm_data.storage.store import Folder
from trm_train.runs.record import TRACKING_FILE, RunRecord

TrackingMode = Literal["wandb", "none"]
ID = re.compile(r"[A-Za-z0-9_-]{1,128}")


class Tracker(Protocol):
    """Receives metrics as they come."""

    id: str

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Metrics of a step, already divided."""
        ...

    def alert(self, title: str, text: str) -> None:
        """Something that whoever is responsible should know soon."""
        ...

    def finish(self) -> None:
        """No more will come."""
        ...


class NoTracker:
    """Keeps nothing."""

    id = ""

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Keep none of it."""

    def alert(self, title: str, text: str) -> None:
        """Tell nobody: the log has it."""

    def finish(self) -> None:
        """Keep none of it."""


class WandbTracker:
    """One wandb run."""

    def __init__(self, folder: Folder, record: RunRecord) -> None:
        import wandb

        online = is_online()
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or f"trm-{record.group}",
            group=record.experiment,
            tags=[tag for tag in (record.scale, record.data) if tag],
            name=record.run,
            id=tracking_id(folder, record.run),
            resume="allow" if online else None,
            config=_flat(record),
            dir=folder.working("wandb").parent,
            mode=_mode(online),
            # wandb sends the remote of the checkout, whose URL may have a token; the config has the version of the code
            settings=wandb.Settings(console="off", silent=True, disable_git=True),
        )
        self.id: str = self._run.id

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Metrics of a step."""
        self._run.log(metrics, step=step)

    def alert(self, title: str, text: str) -> None:
        """Send it as wandb sends alerts: by mail or chat, as the user has set there."""
        self._run.alert(title=title, text=text)

    def finish(self) -> None:
        """Flush and close."""
        self._run.finish()


def tracking_id(folder: Folder, run: str) -> str:
    """The id of a run, which is drawn where it has none yet."""
    stored = folder.read(TRACKING_FILE)
    found = "" if stored is None else stored.decode("utf-8", "replace").strip()
    if not ID.fullmatch(found):
        found = f"{run}-{secrets.token_hex(4)}"
        folder.write(TRACKING_FILE, f"{found}\n".encode())
    return found


def make_tracker(mode: TrackingMode, folder: Folder, record: RunRecord) -> Tracker:
    """The tracker that was asked for."""
    return NoTracker() if mode == "none" else WandbTracker(folder, record)


def is_online() -> bool:
    """Whether there is a login, so that a run is mirrored as it goes."""
    return bool(os.environ.get("WANDB_API_KEY")) or _logged_in()


def _mode(online: bool) -> Any:
    """What the user has set for wandb, else online where there is a login."""
    return os.environ.get("WANDB_MODE") or ("online" if online else "offline")


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
