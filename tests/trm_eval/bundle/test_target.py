"""Which machines a bundle can be for, and what uv and pip are told of them."""

from __future__ import annotations

import pytest

from trm_eval.bundle.target import parse_target
from trm_eval.errors import BundleError


def test_wheels_of_older_platforms_run_on_a_newer_one() -> None:
    platforms = parse_target("3.12", "manylinux_2_28_x86_64").platforms
    assert platforms[0] == "manylinux_2_28_x86_64"
    assert {"manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux_2_5_x86_64"} <= set(platforms)
    assert "manylinux_2_29_x86_64" not in platforms


def test_the_year_of_a_platform_is_its_c_library() -> None:
    old = parse_target("3.11", "manylinux2014_aarch64")
    assert old.platforms[:2] == ("manylinux_2_17_aarch64", "manylinux2014_aarch64")
    assert old.uv_options[-1] == "aarch64-manylinux_2_17"


def test_uv_is_told_the_newest_platform_that_it_knows() -> None:
    assert parse_target("3.12", "manylinux_2_30_x86_64").uv_options[-1] == "x86_64-manylinux_2_28"
    assert parse_target("3.12", "manylinux_2_35_x86_64").uv_options[-1] == "x86_64-manylinux_2_35"
    assert parse_target("3.12", "manylinux_2_60_x86_64").uv_options[-1] == "x86_64-manylinux_2_40"
    with pytest.raises(BundleError, match="manylinux_2_17 or newer"):
        parse_target("3.12", "manylinux_2_12_x86_64")


@pytest.mark.parametrize("python", ["3.10", "3", "2.7", "3.11.2", "latest", ""])
def test_a_python_that_this_package_does_not_run_on_is_refused(python: str) -> None:
    with pytest.raises(BundleError, match=r"--python .*: expected 3\.11 or newer"):
        parse_target(python, "manylinux_2_28_x86_64")


@pytest.mark.parametrize(
    "platform", ["win_amd64", "manylinux_2_28", "linux_x86_64", "manylinux_2_28_x86_64 "]
)
def test_what_is_no_platform_of_linux_is_refused(platform: str) -> None:
    with pytest.raises(BundleError, match="expected a Linux wheel tag"):
        parse_target("3.11", platform)
