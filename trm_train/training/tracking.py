"""Logs metrics to Weights & Biases. The metric table is the source of truth; this is a copy.

Each run has its own id there, drawn at its first start and stored in its folder. So a run keeps its id after a restart
on any machine. A run of the same name under another root, or one started over (`--resume never`), gets another id.
Without a login, the run is stored offline in its folder on this machine; `wandb sync` uploads it.
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
    """Receiver of metrics."""

    id: str

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Log the metrics of a step; they are means already."""
        ...

    def alert(self, title: str, text: str) -> None:
        """Send an urgent message to the person responsible for the run."""
        ...

    def finish(self) -> None:
        """Close the tracker."""
        ...


class NoTracker:
    """Tracker that does nothing."""

    id = ""

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Do nothing."""

    def alert(self, title: str, text: str) -> None:
        """Do nothing: the log already has the message."""

    def finish(self) -> None:
        """Do nothing."""


class WandbTracker:
    """Tracker for one wandb run."""

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
            # wandb would record the git remote, whose URL may contain a token; the config already has the code version
            settings=wandb.Settings(console="off", silent=True, disable_git=True),
        )
        self.id: str = self._run.id

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Log the metrics of a step."""
        self._run.log(metrics, step=step)

    def alert(self, title: str, text: str) -> None:
        """Send a wandb alert (mail or chat, as set by the user there)."""
        self._run.alert(title=title, text=text)

    def finish(self) -> None:
        """Upload the rest and close."""
        self._run.finish()


def tracking_id(folder: Folder, run: str) -> str:
    """Return the id of a run; draw and store one if it has none."""
    stored = folder.read(TRACKING_FILE)
    found = "" if stored is None else stored.decode("utf-8", "replace").strip()
    if not ID.fullmatch(found):
        found = f"{run}-{secrets.token_hex(4)}"
        folder.write(TRACKING_FILE, f"{found}\n".encode())
    return found


def make_tracker(mode: TrackingMode, folder: Folder, record: RunRecord) -> Tracker:
    """Return the tracker for a mode."""
    return NoTracker() if mode == "none" else WandbTracker(folder, record)


def is_online() -> bool:
    """Return whether there is a wandb login, so that metrics are uploaded during the run."""
    return bool(os.environ.get("WANDB_API_KEY")) or _logged_in()


def _mode(online: bool) -> Any:
    """Return the user's `WANDB_MODE`, else online if there is a login, else offline."""
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
