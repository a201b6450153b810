"""Old import paths of `trm_train.training` and `trm_train.runs`, for one release."""

import warnings

warnings.warn(
    "trm_train.run is deprecated and goes with the next release. Import trm_train.training or trm_train.runs.",
    DeprecationWarning,
    stacklevel=2,
)
