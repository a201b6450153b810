"""Errors that a user can act on. The command line prints them as a message without a traceback."""

from trm_data.errors import LabError


class EvalError(LabError):
    """Base class of all errors that `trm_eval` raises deliberately."""


class NoCheckpointError(EvalError):
    """A run that has no saved weights yet."""


class ResultError(EvalError):
    """Results that are missing, unreadable or cannot be written."""


class StatisticsError(EvalError):
    """Numbers from which a statistic cannot be computed or would be meaningless; the message says why."""
