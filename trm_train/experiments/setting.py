"""Setting of an experiment: its scale and its puzzles.

    full     the published study: 9x9 grids, width 512, a pod
    laptop   9x9 grids, a quarter of the width, hours on two cores
    tiny     6x6 grids, an eighth of the width, minutes on two cores: the study in miniature

An experiment outside the study has one setting, `own`.

Runs of different settings have different configurations and names; their records contain the setting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from trm_data.errors import one_of
from trm_train.errors import ConfigError

Scale = Literal["full", "laptop", "tiny", "own"]
Puzzles = Literal["published", "generated-extreme", "generated", ""]

SCALES: tuple[Scale, ...] = get_args(Scale)
PUZZLES: tuple[Puzzles, ...] = get_args(Puzzles)[:-1]


@dataclass(frozen=True)
class Setting:
    """Scale of an experiment, and its puzzles.

    Attributes:
        scale: Size of networks and grids.
        data: `published` (downloaded), `generated-extreme` (as hard as Sudoku-Extreme) or `generated` (random); empty
            outside the study.
    """

    scale: Scale
    data: Puzzles

    def __str__(self) -> str:
        return " ".join(self.options)

    @property
    def options(self) -> list[str]:
        """Options of a command that choose it."""
        return ["--scale", self.scale, *(["--data", self.data] if self.data else [])]


OWN = Setting("own", "")
"""Setting of experiments outside the study."""

USUAL_DATA: dict[Scale, Puzzles] = {
    "full": "published",
    "laptop": "generated",
    "tiny": "generated",
    "own": "",
}
"""Default puzzles of each scale."""

SETTINGS = tuple(
    Setting(scale, data)
    for scale in SCALES[:-1]
    for data in PUZZLES
    if scale != "tiny" or data == "generated"
)
"""All settings of the study; the first is its default."""


class By(NamedTuple):
    """Values for the three scales."""

    full: Any
    laptop: Any
    tiny: Any


def at(value: Any, scale: Scale) -> Any:
    """Return the value at a scale; a plain value is the same at every scale."""
    return getattr(value, scale) if isinstance(value, By) else value


def parse_setting(scale: str | None, data: str | None) -> Setting | None:
    """Parse a setting from its scale and data; a missing part takes its default. Return None if both are missing."""
    if scale is None and data is None:
        return None
    named = scale if scale is not None else "full"
    if named not in SCALES:
        raise ConfigError(one_of("--scale", SCALES, named))
    if named == "own":
        if data is not None:
            raise ConfigError("--data: an experiment of one's own has its own puzzles. Leave out --data")
        return OWN
    puzzles = data if data is not None else USUAL_DATA[named]
    if puzzles not in PUZZLES:
        said = one_of("--data", PUZZLES, puzzles)
        raise ConfigError(
            f"{said}. Datasets are trm-train --data.dataset NAME and trm-eval run --dataset NAME"
        )
    setting = Setting(named, puzzles)
    if setting not in SETTINGS:
        raise ConfigError(
            f"{setting}: 6x6 puzzles are neither published nor generated as hard as those; --data generated"
        )
    return setting


def sudoku(setting: Setting, size: By | int = 1_000, aug: By | int = 1_000) -> str:
    """Return the name of the Sudoku dataset of a setting.

    Args:
        setting: Scale and puzzles.
        size: Number of training puzzles; a plain number is halved at the scale tiny.
        aug: Augmentations of each puzzle; a plain number is divided by ten at the scale tiny.
    """
    tiny = setting.scale == "tiny"
    puzzles = at(size, setting.scale) if isinstance(size, By) else size // 2 if tiny else size
    each = at(aug, setting.scale) if isinstance(aug, By) else aug // 10 if tiny else aug
    source = {"published": "extreme"}.get(setting.data, setting.data)
    return f"sudoku-{'2x3-' if tiny else ''}{source}-{puzzles}-aug-{each}"
