"""Wheels of a bundle, resolved by the real uv and downloaded by the real pip from a folder."""

from __future__ import annotations

import dataclasses
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.trm_eval.bundle.conftest import look_only_in, write_wheel
from trm_data.storage.atomic import file_sha256
from trm_eval.bundle import index as module
from trm_eval.bundle.index import fetch_wheels, find_wheels, requirements
from trm_eval.bundle.target import DEFAULT_PLATFORM, Target, parse_target
from trm_eval.errors import BundleError


@pytest.fixture
def more(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the index that a test may change."""
    folder = Path(shutil.copytree(index, tmp_path / "index"))
    look_only_in(folder, monkeypatch)
    return folder


def test_every_wheel_is_found_with_its_digest_and_fetched(
    index: Path, target: Target, tmp_path: Path
) -> None:
    wheels = find_wheels(target, ())
    assert {wheel.file for wheel in wheels} == {path.name for path in index.iterdir()}
    for wheel in wheels:
        assert wheel.sha256 == file_sha256(index / wheel.file)
        assert wheel.version == version(wheel.name)
    fetch_wheels(target, wheels[:3], tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(wheel.file for wheel in wheels[:3])


def test_requirements_are_those_of_prediction_with_the_extras() -> None:
    names = {line.partition(">")[0] for line in requirements(())}
    assert {"jax", "numpy", "numba", "pyarrow", "polars"} <= names
    assert not {"wandb", "matplotlib", "ray", "gcsfs", "streamlit", "jax[cuda12]"} & names
    assert any(line.startswith("jax[cuda12]") for line in requirements(("cuda",)))


def test_versions_are_those_that_run_here(more: Path, target: Target) -> None:
    write_wheel(more, "numpy", "99.0")
    assert {wheel.name: wheel.version for wheel in find_wheels(target, ())}["numpy"] == version("numpy")


def test_what_only_the_other_machine_needs_is_resolved_for_it(more: Path, target: Target) -> None:
    (jax,) = more.glob("jax-*.whl")
    there = ["first-there>=2", 'only-313; python_version >= "3.13"', 'of-windows; sys_platform == "win32"']
    write_wheel(more, "jax", jax.name.split("-")[1], requires=there)
    for each, tag in (("1.0", "py3-none-any"), ("2.5", "cp311-cp311-manylinux_2_27_x86_64")):
        write_wheel(more, "first-there", each, tag, requires=["then-there"])
    write_wheel(more, "first-there", "3.0", "cp313-cp313-manylinux_2_27_x86_64")
    write_wheel(more, "then-there", "7")
    write_wheel(more, "only-313", "1")
    found = {wheel.name: wheel.version for wheel in find_wheels(target, ())}
    assert (found["first-there"], found["then-there"]) == ("2.5", "7")
    assert not {"only-313", "of-windows"} & found.keys()
    newer = {wheel.name: wheel.version for wheel in find_wheels(parse_target("3.13", DEFAULT_PLATFORM), ())}
    assert (newer["first-there"], newer["only-313"]) == ("3.0", "1")


def test_other_bytes_than_were_found_are_refused(index: Path, target: Target, tmp_path: Path) -> None:
    wheel = find_wheels(target, ())[0]
    with pytest.raises(BundleError, match=r"cannot be downloaded.*sha256"):
        fetch_wheels(target, [dataclasses.replace(wheel, sha256="0" * 64)], tmp_path)


def test_a_missing_wheel_is_named_with_the_machine(more: Path, target: Target) -> None:
    (polars,) = more.glob("polars-*.whl")
    polars.rename(polars.with_name(polars.name.replace("py3-none-any", "cp313-cp313-manylinux_2_17_x86_64")))
    with pytest.raises(BundleError, match=r"Python 3\.11 on manylinux_2_28_x86_64.*polars"):
        find_wheels(target, ())


def test_an_index_out_of_reach_is_reported(
    index: Path, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UV_CONFIG_FILE")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(BundleError, match="the package index cannot be reached"):
        find_wheels(target, ())


def test_programs_are_looked_for_on_the_path_and_in_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(module.shutil, "which", {"uv": "/there/uv"}.get)
    assert module.pip_command() == ["/there/uv", "tool", "run", "pip"]
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    with pytest.raises(BundleError, match="pip install uv"):
        module.pip_command()
