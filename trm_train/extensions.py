"""Networks, mixers, optimizers and experiments of other packages, found by entry point.

A package declares, for example, in its pyproject.toml:

    [project.entry-points."trm_train.networks"]
    gru = "my_package.gru:GRU"

Only the package that is named is imported, and only when its name is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from trm_data.closest import one_of
from trm_train.errors import ConfigError, ForeignRunError


def extensions(kind: str) -> dict[str, EntryPoint]:
    """The entry points of a kind by name: `networks`, `mixers`, `optimizers` or `experiments`."""
    return {point.name: point for point in entry_points(group=f"trm_train.{kind}")}


def check_known(kind: str, name: str, built_in: Iterable[str], key: str) -> None:
    """Check that a name is built in or declared by an installed package; nothing is imported.

    Raises:
        ForeignRunError: It is neither.
    """
    if name in built_in:
        return
    found = extensions(kind)
    if name not in found:
        raise ForeignRunError(one_of(key, [*built_in, *sorted(found)], name))


def load_extension(kind: str, name: str, built_in: Iterable[str], key: str) -> Any:
    """Import what an entry point names.

    Args:
        kind: Of the extension.
        name: Its name, as users type it.
        built_in: Names that this package has itself, for the error message.
        key: The option that gives the name, for the error message.

    Raises:
        ForeignRunError: No installed package has this name.
        ConfigError: The package that has it cannot be imported.
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
