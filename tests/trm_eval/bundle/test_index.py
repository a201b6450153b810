"""What pip finds, fetches and refuses; pip is the real one, and looks into a folder."""

from __future__ import annotations

import dataclasses
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.trm_eval.bundle.conftest import write_wheel
from trm_data.storage.atomic import file_sha256
from trm_eval.bundle import index as pip
from trm_eval.bundle.index import Wheel, fetch_wheels, file_name, find_wheels, requirements, sizes_of
from trm_eval.bundle.target import Target
from trm_eval.errors import BundleError


def test_every_wheel_is_found_with_its_digest_and_fetched(
    index: Path, target: Target, tmp_path: Path
) -> None:
    wheels = find_wheels(target, ())
    assert [wheel.name for wheel in wheels] == list(requirements(target, (), {}))
    for wheel in wheels:
        assert wheel.sha256 == file_sha256(index / file_name(wheel))
    assert sizes_of(wheels) == [(index / file_name(wheel)).stat().st_size for wheel in wheels]
    assert sizes_of([dataclasses.replace(wheels[0], url="file:///nowhere.whl")]) == [None]
    fetch_wheels(target, wheels[:3], tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(map(file_name, wheels[:3]))


def test_what_only_the_other_machine_needs_is_found_with_what_it_requires(
    index: Path, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = Path(shutil.copytree(index, tmp_path / "index"))
    (jax,) = more.glob("jax-*.whl")
    number = jax.name.split("-")[1]
    write_wheel(more, "jax", number, requires=["first-there>=2"])
    for each, tag in (("1.0", "py3-none-any"), ("2.5", "cp311-cp311-manylinux_2_27_x86_64")):
        write_wheel(more, "first-there", each, tag, requires=["then-there"])
    write_wheel(more, "first-there", "3.0", "cp313-cp313-manylinux_2_27_x86_64")
    write_wheel(more, "then-there", "7")
    monkeypatch.setenv("PIP_FIND_LINKS", str(more))
    found = {wheel.name: wheel.version for wheel in find_wheels(target, ())}
    assert (found["first-there"], found["then-there"]) == ("2.5", "7")


def test_other_bytes_than_were_found_are_refused(index: Path, target: Target, tmp_path: Path) -> None:
    wheel = Wheel("polars", version("polars"), "", "0" * 64, ())
    with pytest.raises(BundleError, match=r"pip: .*HASH"):
        fetch_wheels(target, [wheel], tmp_path)


def test_a_missing_wheel_is_named_with_the_machine(
    index: Path, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    less = Path(shutil.copytree(index, tmp_path / "index"))
    (polars,) = less.glob("polars-*.whl")
    polars.rename(polars.with_name(polars.name.replace("py3-none-any", "cp313-cp313-manylinux_2_17_x86_64")))
    monkeypatch.setenv("PIP_FIND_LINKS", str(less))
    with pytest.raises(
        BundleError, match=r"no wheel of polars==.* for Python 3\.11 on manylinux_2_28_x86_64"
    ):
        find_wheels(target, ())


def test_digests_are_read_as_every_pip_reports_them_and_never_missing() -> None:
    def reported(stated: dict[str, Any]) -> dict[str, Any]:
        about = {"name": "Some.Thing", "version": "1"}
        return {"metadata": about, "download_info": {"url": "file:///x.whl", "archive_info": stated}}

    digest = "ab" * 32
    for stated in ({"hash": f"sha256={digest}"}, {"hashes": {"md5": "0", "sha256": digest}}):
        wheel = pip._wheel(reported(stated))
        assert (wheel.name, wheel.sha256) == ("some-thing", digest)
    for stated in ({}, {"hash": "md5=00"}):
        with pytest.raises(BundleError, match=r"Some\.Thing 1: its index has no sha256"):
            pip._wheel(reported(stated))


def test_an_index_out_of_reach_is_said_to_be(
    index: Path, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(BundleError, match="the package index cannot be reached"):
        find_wheels(target, ())


def test_without_pip_its_place_is_taken_by_uv_or_the_way_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pip.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(pip.shutil, "which", {"uv": "/there/uv"}.get)
    assert pip.pip_command() == ["/there/uv", "tool", "run", "pip"]
    monkeypatch.setattr(pip.shutil, "which", lambda name: None)
    with pytest.raises(BundleError, match="python -m ensurepip"):
        pip.pip_command()
