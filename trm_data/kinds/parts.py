"""Old import path of `trm_data.kinds.registry.KindParts`, for one release."""

import warnings

from trm_data.kinds.registry import KindParts

__all__ = ["KindParts"]

warnings.warn(
    "trm_data.kinds.parts is deprecated and goes with the next release. Import trm_data.kinds.registry.",
    DeprecationWarning,
    stacklevel=2,
)
