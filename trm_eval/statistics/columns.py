"""Reads columns of a frame as arrays, or raises an error with the reason."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from trm_eval.errors import StatisticsError

ROUNDING = 1e-12
"""Rounding tolerance between equal values, relative to the largest one."""


def check_columns(frame: pl.DataFrame, *names: str) -> None:
    """Check that a frame has the columns, without missing values.

    Raises:
        StatisticsError: A column or a value is missing; the message names the column.
    """
    for name in names:
        if name not in frame.columns:
            raise StatisticsError(f"no column {name!r}; there are: {', '.join(frame.columns)}")
        if missing := frame[name].null_count():
            raise StatisticsError(
                f"{name}: {missing} of {frame.height} rows have no value; leave them out, or find out why"
            )


def numbers(frame: pl.DataFrame, name: str) -> NDArray[np.float64]:
    """Return a column of finite numbers.

    Raises:
        StatisticsError: The column does not exist, or has values that are not finite numbers.
    """
    check_columns(frame, name)
    kind = frame[name].dtype
    if not (kind.is_numeric() or kind == pl.Boolean):
        raise StatisticsError(f"{name}: has no numbers but {kind}")
    found = frame[name].cast(pl.Float64).to_numpy()
    if not np.isfinite(found).all():
        raise StatisticsError(
            f"{name}: has {found[~np.isfinite(found)][0]}, where only finite numbers mean something"
        )
    return found


def booleans(frame: pl.DataFrame, name: str) -> NDArray[np.bool_]:
    """Return a boolean column.

    Raises:
        StatisticsError: The column does not exist, or has another type.
    """
    check_columns(frame, name)
    if frame[name].dtype != pl.Boolean:
        raise StatisticsError(f"{name}: true or false is needed, got {frame[name].dtype}")
    return frame[name].to_numpy()
