"""Code of users: the entry points of installed packages, and what a file of their own adds.

`--experiments FILE.py`, or `TRM_EXPERIMENTS`, names the file. It is imported once, when an extension is looked up,
and adds kinds, networks and experiments by decorators. Of packages only the named one is imported.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from trm_data.errors import SpecError

OWN_FILE = "TRM_EXPERIMENTS"
"""Environment variable: path of the file; child processes inherit it."""

GROUPS = (
    "trm_data.kinds",
    "trm_train.experiments",
    "trm_train.mixers",
    "trm_train.networks",
    "trm_train.optimizers",
)
"""Groups of entry points."""

_ADDED: dict[tuple[str, str], EntryPoint] = {}


def extensions_of(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, those of the user's file included."""
    load_own_file()
    added = {name: entry for (of, name), entry in _ADDED.items() if of == group}
    return {entry.name: entry for entry in entry_points(group=group)} | added


def installed_extensions() -> list[tuple[str, str, str]]:
    """Return group, name and value of the entry points of installed packages, sorted."""
    points = entry_points()  # read once for all groups
    ours = [point for group in GROUPS for point in points.select(group=group)]
    return sorted((point.group, point.name, point.value) for point in ours)


def add_extension(group: str, name: str, given: type) -> None:
    """Add a class to a group as if an installed package named it.

    Raises:
        SpecError: Another class of this file or script has the name.
    """
    entry = EntryPoint(name, f"{given.__module__}:{given.__qualname__}", group)
    if _ADDED.setdefault((group, name), entry) != entry:
        raise SpecError(f"{name}: both {_ADDED[group, name].value} and {entry.value} have this name")


def code_digest(module: str) -> str:
    """Return the sha256 of the source of a module, and of all others of its folder if it is in a package; empty if the
    source is not readable.
    """
    loaded = sys.modules.get(module)
    found = importlib.util.find_spec(module) if loaded is None else None
    origin = getattr(loaded, "__file__", None) or getattr(found, "origin", None)
    if origin is None:
        return ""
    file = Path(origin)
    in_package = "." in module or file.name == "__init__.py"
    digest = hashlib.sha256()
    for path in sorted(file.parent.rglob("*.py")) if in_package else [file]:
        name = path.relative_to(file.parent).as_posix()
        digest.update(hashlib.sha256(path.read_bytes()).digest() + name.encode())
    return digest.hexdigest()


def take_option(option: str, arguments: list[str]) -> tuple[str | None, list[str]]:
    """Return the last value of an option, and the arguments without the option."""
    value, rest, position = None, list[str](), 0
    while position < len(arguments):
        word = arguments[position]
        if word == option and position + 1 < len(arguments):
            value = arguments[position + 1]
            position += 1
        elif word.startswith(f"{option}="):
            value = word.removeprefix(f"{option}=")
        else:
            rest.append(word)
        position += 1
    return value, rest


def take_own_file(arguments: list[str]) -> list[str]:
    """Return the arguments without `--experiments FILE`; store FILE in the environment, for all processes."""
    file, rest = take_option("--experiments", arguments)
    if file is not None:
        os.environ[OWN_FILE] = str(Path(file).absolute())
    return rest


def load_own_file() -> None:
    """Import the user's file once, under its name without `.py`, which becomes the group of its experiments."""
    if not os.environ.get(OWN_FILE):
        return
    path = Path(os.environ[OWN_FILE]).expanduser().absolute()
    if not path.is_file():
        raise SpecError(
            f"{path}: no such file of experiments. Give --experiments or ${OWN_FILE} an existing NAME.py."
        )
    known = sys.modules.get(path.stem)
    if known is not None:
        if Path(known.__file__ or "").resolve() != path.resolve():
            raise SpecError(
                f"--experiments {path}: another module has the name {path.stem}. Rename the file."
            )
        return
    location = importlib.util.spec_from_file_location(path.stem, path)
    if location is None or location.loader is None:
        raise SpecError(f"--experiments {path}: expected a Python file (NAME.py).")
    module = importlib.util.module_from_spec(location)
    sys.modules[path.stem] = module
    try:
        location.loader.exec_module(module)
    except Exception as error:
        del sys.modules[path.stem]
        raise SpecError(f"--experiments {path}: {type(error).__name__}: {error}") from error
