"""The copy of a run's metrics at Weights & Biases.

Each run has its own id at Weights & Biases, drawn at its first start and stored in its folder. So a run keeps its id
after a restart on any machine. A run of the same name under another root, or one started over (`--resume never`), gets
another id. Without a login, the run is stored offline in its folder on this machine; `wandb sync` uploads it.
"""

from __future__ import annotations

import os
import re
import secrets
from typing import TYPE_CHECKING, Literal

from trm_data.storage.store import Folder
from trm_train.config.run import config_to_json
from trm_train.runs.record import TRACKING_FILE, RunRecord

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
        config=config_to_json(record.config)
        | {"identity": record.identity, "content_digest": record.content_digest},
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
    import netrc

    try:
        entry = netrc.netrc().authenticators("api.wandb.ai")
    except (OSError, netrc.NetrcParseError):
        entry = None
    return bool(os.environ.get("WANDB_API_KEY")) or entry is not None
