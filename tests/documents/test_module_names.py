"""Modules named in docstrings, comments and CONTRIBUTING exist."""

from __future__ import annotations

import re

from tests.conftest import PROJECT
from tests.documents.test_sizes import MODULES, PACKAGES

NAMED = re.compile(r"`((?:[a-z_]+\.)+[a-zA-Z_]+)`")
FILES = str.split("json html md duckdb parquet txt sql svg npz ipynb csv log toml zst")
VARIABLES = ("config",)
"""Rooms with the name of a common variable."""


def dotted(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def test_a_module_named_in_a_package_exists() -> None:
    """`room.module` or `room.module.name`, where `room` is a folder of the same package."""
    texts = {dotted(path.relative_to(PROJECT).as_posix()): path.read_text("utf-8") for path in MODULES}
    rooms = {
        package: {name.split(".")[1] for name in texts if name.startswith(f"{package}.")}
        for package in PACKAGES
    }
    missing = []
    for module, text in texts.items():
        package = module.split(".")[0]
        for name in NAMED.findall(text):
            first, _, last = name.split(".")[0], *name.rpartition(".")[1:]
            if first not in rooms[package] or first in VARIABLES or last in FILES:
                continue
            parent = f"{package}.{name.rpartition('.')[0]}"
            if f"{package}.{name}" not in texts and not re.search(rf"\b{last}\b", texts.get(parent, "")):
                missing.append(f"{module}: {name}")
    assert missing == []


def test_the_map_in_contributing_names_modules_that_exist() -> None:
    text = (PROJECT / "CONTRIBUTING.md").read_text("utf-8")
    names = {path.stem for path in MODULES} | {path.parent.name for path in MODULES}
    listed = re.findall(r"(\w+)/\{([\w,.<>]+)\}", text)
    assert len(listed) > 5
    missing = [
        f"{room}/{one}"
        for room, ones in listed
        for one in ones.split(",")
        if one.isidentifier() and one not in names
    ]
    assert missing == []
