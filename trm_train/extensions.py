"""Networks, mixers, optimizers and experiments from other packages or a file of the user, found by entry point.

A package declares, for example, in its pyproject.toml:

    [project.entry-points."trm_train.networks"]
    gru = "my_package.gru:GRU"

Only the named package is imported, and only when its name is used. Exception: the modules of the entry point
`trm_train.experiments` register experiments on import, and are imported whenever experiments are listed or looked up.
A file of the user (`trm_data.extensions`) adds networks with `trm_train.add_network`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint
from typing import Any, TypeVar

from trm_data.errors import one_of
from trm_data.extensions import add_extension, code_digest, extensions_of
from trm_train.errors import ConfigError, ForeignRunError

ANetwork = TypeVar("ANetwork")


def extensions(kind: str) -> dict[str, EntryPoint]:
    """Return the entry points of a kind by name: `networks`, `mixers`, `optimizers` or `experiments`."""
    return extensions_of(f"trm_train.{kind}")


def add_network(network: type[ANetwork]) -> type[ANetwork]:
    """Add a network under the `architecture` of its `options`; a decorator for a script, or for the user's file.

    Raises:
        ConfigError: It has no options with an architecture.
    """
    name = getattr(getattr(network, "options", None), "architecture", "")
    if not name:
        raise ConfigError(f"{network.__qualname__}.options: expected a class with the field `architecture`")
    add_extension("trm_train.networks", name, network)
    return network


def check_known(kind: str, name: str, built_in: Iterable[str], key: str) -> None:
    """Raise ForeignRunError if a name is neither built in nor declared by an installed package or the user's file."""
    if name in built_in:
        return
    found = extensions(kind)
    if name not in found:
        known = one_of(key, [*built_in, *sorted(found)], name)
        raise ForeignRunError(
            f"{known} (one of your own needs its package installed, or --experiments FILE.py)"
        )


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


def own_code(names: Mapping[str, str]) -> dict[str, str]:
    """Return the first 16 digits of the sha256 of the source of each extension, as `code of NAME`.

    Args:
        names: Names in use, by kind of extension; built-in names are left out.
    """
    found = {name: extensions(kind).get(name) for kind, name in names.items()}
    return {
        f"code of {name}": code_digest(entry.module)[:16]
        for name, entry in found.items()
        if entry is not None
    }


def load_experiment_modules() -> None:
    """Import the modules of other packages that register experiments, and the user's file, if any."""
    for name in extensions("experiments"):
        load_extension("experiments", name, (), "entry point trm_train.experiments")
