"""Errors that a user can act on. The command line prints them as one message, without a traceback."""

from trm_data.errors import LabError

BEING_TRAINED = "is being trained by another process"
"""Said of a run that somebody else writes."""


class TrainError(LabError):
    """Base of every error that `trm_train` raises on purpose."""


class ConfigError(TrainError):
    """A configuration that cannot be run: says which key, what it got and what is allowed."""


class ForeignRunError(ConfigError):
    """A run whose record is whole, of an architecture or version that this checkout lacks."""


class CheckpointError(TrainError):
    """A checkpoint that is missing, unreadable, or belongs to another configuration or dataset."""


class NotFiniteError(TrainError):
    """The loss is not finite: the run cannot continue as it is."""

    exit_code = 3


class OutOfMemoryError(TrainError):
    """The devices cannot hold a run: says what takes less."""


class HostError(TrainError):
    """The processes of a run cannot work together: says which one, and what it would take.

    Args:
        text: What happened.
        exit_code: How the process ends.
    """

    def __init__(self, text: str, exit_code: int = 2) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class LaunchError(TrainError):
    """A failed launch; names the command or host, and what to do."""


class CapacityError(LaunchError):
    """There are no machines of this kind to be had now; later there may be."""
