"""`trm-eval serve`: shows runs and results in a browser."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

from tyro.conf import arg

from trm_data.command import Root
from trm_data.errors import Exit
from trm_data.storage.root import resolve_root


@dataclass(frozen=True, kw_only=True)
class Serve:
    """Show runs and results in a browser of this machine, read-only, until Ctrl-C.

    Pages: runs, learning curves, evaluations with intervals, and puzzles.
    Every figure and table shows its SQL. Needs the extra `serve`.

    For example:

      trm-eval serve --root trm
      trm-eval serve --root gs://bucket/trm --port 9000
    """

    host: Annotated[str, arg(metavar="HOST")] = "127.0.0.1"
    """Address to listen at. There is no password: everybody who reaches it can read all results."""
    port: Annotated[int, arg(metavar="PORT")] = 8765
    """Port (0: a free one)."""
    root: Root = None

    def run(self) -> int:
        """Serve the pages until Ctrl-C."""
        from trm_eval.serve.server import bind, check_extra, is_loopback, serve, url_of

        check_extra()
        layout = resolve_root(self.root)
        listening = bind(self.host, self.port)
        if not is_loopback(str(listening.getsockname()[0])):
            print(
                f"trm-eval: warning: --host {self.host}: whoever reaches this machine can read all results of "
                f"{layout.place}; there is no password and no encryption",
                file=sys.stderr,
            )
        print(
            f"{url_of(listening)}  runs and results of {layout.place}, read-only; Ctrl-C ends it", flush=True
        )
        serve(layout, listening)
        return Exit.DONE
