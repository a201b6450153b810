"""Old import path of `trm_train.training.loop`."""

from trm_train.training.loop import train

__all__ = ["train"]
