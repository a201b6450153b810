"""Which machines a bundle can be for, and what pip is told of them."""

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
    assert old.markers["platform_machine"] == "aarch64"
    assert old.markers["python_version"] == "3.11"


@pytest.mark.parametrize("python", ["3.10", "3", "2.7", "3.11.2", "latest", ""])
def test_a_python_that_this_package_does_not_run_on_is_refused(python: str) -> None:
    with pytest.raises(BundleError, match=r"--python .*: expected 3\.11 or newer"):
        parse_target(python, "manylinux_2_28_x86_64")


@pytest.mark.parametrize(
    "platform", ["win_amd64", "manylinux_2_28", "linux_x86_64", "manylinux_2_28_x86_64 "]
)
def test_what_is_no_platform_of_linux_is_refused(platform: str) -> None:
    with pytest.raises(BundleError, match="a tag of wheels for Linux, as manylinux_2_28_x86_64"):
        parse_target("3.11", platform)
