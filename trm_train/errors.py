"""Errors that a user can act on. The command line prints them as one message, without a traceback."""


class TrainError(Exception):
    """Base of every error that `trm_train` raises on purpose."""


class ConfigError(TrainError):
    """A configuration that cannot be run: says which key, what it got and what is allowed."""


class CheckpointError(TrainError):
    """A checkpoint that is missing, unreadable, or belongs to another configuration or dataset."""


class NotFiniteError(TrainError):
    """The loss is no number any more: the run cannot go on as it is."""

    exit_code = 3
