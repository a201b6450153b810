"""Errors that a user can act on. The command line prints them as a message without a traceback."""

from trm_data.errors import Exit, LabError

BEING_TRAINED = "is being trained by another process"
"""Part of the error message for a run that another process is training."""


class TrainError(LabError):
    """Base class of all errors that `trm_train` raises deliberately."""


class ConfigError(TrainError):
    """A configuration that cannot be run; the message names the key, its value and the allowed values."""


class ForeignRunError(ConfigError):
    """An intact run record with an architecture or version that this checkout does not have."""


class CheckpointError(TrainError):
    """A checkpoint that is missing, unreadable, or belongs to another configuration or dataset."""


class NotFiniteError(TrainError):
    """The loss is not finite, so the run cannot continue unchanged."""

    exit_code = Exit.NOT_FINITE


class OutOfMemoryError(TrainError):
    """The devices do not have enough memory for a run; the message says what needs less."""


class HostError(TrainError):
    """The processes of a run cannot work together; the message names the process and the remedy.

    Args:
        text: Error message.
        exit_code: Exit code of the process.
    """

    def __init__(self, text: str, exit_code: int = Exit.ERROR) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class LaunchError(TrainError):
    """A failed launch; the message names the command or host, and the remedy."""
