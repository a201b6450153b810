"""Old import path of `trm_data.symmetry`, for one release."""

import sys
import warnings

from trm_data.symmetry import dihedral

warnings.warn(
    "trm_data.augment is deprecated and goes with the next release. Import trm_data.symmetry.",
    DeprecationWarning,
    stacklevel=2,
)
sys.modules[f"{__name__}.dihedral"] = dihedral
