"""Errors that a user can act on. The command line prints them as one message, without a traceback."""

from trm_data.errors import LabError


class EvalError(LabError):
    """Base of every error that `trm_eval` raises on purpose."""


class NoCheckpointError(EvalError):
    """A run that has not written weights yet."""


class ResultError(EvalError):
    """Results that are missing, or cannot be written or read."""


class StatisticsError(EvalError):
    """Numbers that a statistic cannot be computed from, or would mean nothing of; the message says why."""


class PackageError(EvalError):
    """A package of a run that cannot be made, is damaged or edited, or does not fit where it is to go."""


class BundleError(EvalError):
    """A bundle that cannot be made here or for that machine; the message says what to do."""
