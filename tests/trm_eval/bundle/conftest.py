"""An ARC run, and an index that needs no network: wheels of the real names, versions and requirements, without code."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.trm_data.kinds.test_arc import request
from tests.trm_eval.test_votes import AUG, CONFIG, arc_folder
from tests.trm_train.test_loop import run
from trm_data.building.flow import build_dataset
from trm_data.storage.root import Layout, resolve_root
from trm_eval.bundle.index import requirements, uv_command
from trm_eval.bundle.target import DEFAULT_PLATFORM, Target, parse_target
from trm_eval.errors import BundleError


@pytest.fixture(scope="session")
def arc_layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A root with a run on ARC; tests must not change it."""
    folder = tmp_path_factory.mktemp("arc-run")
    layout = resolve_root(folder / "root")
    build_dataset(request(arc_folder(folder / "arc"), aug=AUG, val_size=1), layout)
    run(layout, CONFIG)
    return layout


@pytest.fixture(scope="session")
def target() -> Target:
    return parse_target("3.11", DEFAULT_PLATFORM)


def write_wheel(
    folder: Path, name: str, version: str, tag: str = "py3-none-any", requires: Sequence[str] = ()
) -> None:
    stem = f"{name.replace('-', '_')}-{version}"
    about = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    about += [f"Requires-Dist: {requirement}" for requirement in requires]
    with zipfile.ZipFile(folder / f"{stem}-{tag}.whl", "w") as archive:
        archive.writestr(f"{stem}.dist-info/METADATA", "\n".join([*about, ""]))
        archive.writestr(
            f"{stem}.dist-info/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n"
        )
        archive.writestr(f"{stem}.dist-info/RECORD", "")


@pytest.fixture(scope="session")
def index_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of every direct requirement, in the version that is installed; tests must not change it."""
    folder = tmp_path_factory.mktemp("index")
    for line in requirements(()):
        name = Requirement(line).name
        write_wheel(folder, name, version(name), requires=["jaxlib"] if name == "jax" else ())
    write_wheel(folder, "jaxlib", version("jaxlib"), "cp311-cp311-manylinux_2_27_x86_64")
    return folder


def look_only_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """uv finds wheels in a folder and nowhere else; pip downloads by URL."""
    settings = folder.with_name(f"{folder.name}.toml")
    settings.write_text(f"[pip]\nno-index = true\nfind-links = [{str(folder)!r}]\n")
    monkeypatch.setenv("UV_CONFIG_FILE", str(settings))


@pytest.fixture
def index(index_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The index of wheels that uv and pip use."""
    try:
        uv_command()
    except BundleError as error:
        pytest.skip(f"needs uv: {error}")
    look_only_in(index_folder, monkeypatch)
    return index_folder
