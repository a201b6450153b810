"""How `trm-data sql` and `trm-eval sql` give an answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from trm_data.show.render import Form, print_result

if TYPE_CHECKING:
    from trm_data.catalog.query import QueryResult

Out = Annotated[
    str | None,
    arg(
        metavar="FILE",
        help="Write the answer to a file; one that is there is replaced.",
        help_behavior_hint="",
    ),
]


def give_answer(found: QueryResult, form: Form, out: str | None) -> None:
    """Print what a query found, or write it to a file, whole or not at all.

    Raises:
        QueryError: Parquet would be printed on a terminal.
    """
    if out is None:
        print_result(found, form)
        return
    from trm_data.show.render import result_bytes
    from trm_data.storage.atomic import write_bytes

    write_bytes(Path(out).expanduser(), result_bytes(found, form))
