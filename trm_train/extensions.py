"""Networks, mixers, optimizers and experiments from other packages, found by entry point.

A package declares, for example, in its pyproject.toml:

    [project.entry-points."trm_train.networks"]
    gru = "my_package.gru:GRU"

Only the named package is imported, and only when its name is used. Exception: the modules of the entry point
`trm_train.experiments`, and the file of `--experiments FILE.py` (or `TRM_EXPERIMENTS`). They register experiments on
import, and are imported whenever experiments are listed or looked up.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from trm_data.closest import one_of
from trm_train.errors import ConfigError, ForeignRunError


def extensions(kind: str) -> dict[str, EntryPoint]:
    """Return the entry points of a kind by name: `networks`, `mixers`, `optimizers` or `experiments`."""
    return {point.name: point for point in entry_points(group=f"trm_train.{kind}")}


def installed_extensions() -> list[tuple[str, str, str]]:
    """Return kind, name and value of all entry points, sorted."""
    kinds = "experiments", "mixers", "networks", "optimizers"
    return [(kind, name, point.value) for kind in kinds for name, point in sorted(extensions(kind).items())]


def check_known(kind: str, name: str, built_in: Iterable[str], key: str) -> None:
    """Raise ForeignRunError if a name is neither built in nor declared by an installed package; imports nothing."""
    if name in built_in:
        return
    found = extensions(kind)
    if name not in found:
        raise ForeignRunError(one_of(key, [*built_in, *sorted(found)], name))


def load_extension(kind: str, name: str, built_in: Iterable[str], key: str) -> Any:
    """Import the object of an entry point.

    Args:
        kind: Kind of the extension.
        name: Name of the extension, as users type it.
        built_in: Built-in names, for the error message.
        key: Option that gives the name, for the error message.
    """
    check_known(kind, name, built_in, key)
    found = extensions(kind)[name]
    try:
        return found.load()
    except Exception as error:
        raise ConfigError(
            f"{key} {name}: entry point {found.value} cannot be loaded ({type(error).__name__}: {error}). "
            "Fix or reinstall the package that declares it."
        ) from error


EXPERIMENTS = "TRM_EXPERIMENTS"
"""Environment variable: path of a file of experiments; child processes inherit it."""


def load_experiment_modules(file: str | None) -> None:
    """Import the modules of other packages that register experiments, and the user's file of experiments, if any."""
    for name in extensions("experiments"):
        load_extension("experiments", name, (), "entry point trm_train.experiments")
    if file:
        _load_file(Path(file).expanduser().absolute())


def _load_file(path: Path) -> None:
    """Import a file once, under its name without `.py`, which becomes the group of its experiments."""
    if not path.is_file():
        raise ConfigError(
            f"{path}: no such file of experiments. Give --experiments or ${EXPERIMENTS} an existing NAME.py."
        )
    known = sys.modules.get(path.stem)
    if known is not None:
        if Path(known.__file__ or "").resolve() != path.resolve():
            raise ConfigError(
                f"--experiments {path}: another module has the name {path.stem}. Rename the file."
            )
        return
    location = importlib.util.spec_from_file_location(path.stem, path)
    if location is None or location.loader is None:
        raise ConfigError(f"--experiments {path}: expected a Python file (NAME.py).")
    module = importlib.util.module_from_spec(location)
    sys.modules[path.stem] = module
    try:
        location.loader.exec_module(module)
    except Exception as error:
        del sys.modules[path.stem]
        raise ConfigError(f"--experiments {path}: {type(error).__name__}: {error}") from error
