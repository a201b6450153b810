"""Initial weights of a run other than from its seed, as digests in the run's identity."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass

from trm_train.errors import ConfigError

DIGEST = re.compile(r"([0-9a-f]{64})?")


@dataclass(frozen=True, kw_only=True)
class InitialConfig:
    """Weights that were there before the run; no option of the command line sets these."""

    weights: str = ""
    """Digest of the weights that training starts from (--init-from); empty: drawn from the seed."""
    imported: str = ""
    """sha256 of the file that an imported run holds (import-weights); it is never trained."""
    identifiers: str = ""
    """sha256 of the names of that file's embedding rows (--identifiers), where they were needed."""

    def check(self) -> None:
        """Check that every value is a digest.

        Raises:
            ConfigError: Names the key and what it got.
        """
        for name, value in asdict(self).items():
            if not DIGEST.fullmatch(value):
                raise ConfigError(
                    f"initial.{name}: got {value[:80]!r}; expected 64 hexadecimal digits or nothing"
                )
