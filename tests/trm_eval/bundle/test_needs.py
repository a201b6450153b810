"""What predicting requires on another machine: versions of here, markers of there."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from trm_eval.bundle.index import Wheel, requirements
from trm_eval.bundle.target import DEFAULT_PLATFORM, Target, parse_target
from trm_eval.errors import BundleError


def wheel(name: str, number: str, *requires: str) -> dict[str, Wheel]:
    return {name: Wheel(name, number, f"file:///{name}-{number}-py3-none-any.whl", "0" * 64, requires)}


def of(python: str) -> Target:
    return parse_target(python, DEFAULT_PLATFORM)


def test_versions_are_those_that_run_here_and_what_training_alone_needs_stays_out(target: Target) -> None:
    lines = requirements(target, (), {})
    assert lines["jax"] == f"jax=={version('jax')}"
    assert {"jaxlib", "numpy", "numba", "llvmlite", "pyarrow", "tensorstore"} <= lines.keys()
    assert (
        not {"trm-lab", "wandb", "pydantic", "matplotlib", "pillow", "ray", "gcsfs", "streamlit"}
        & lines.keys()
    )


def test_markers_are_asked_for_the_other_machine() -> None:
    jax = wheel(
        "jax",
        version("jax"),
        'only-there>=2; python_version >= "3.13"',
        'only-there<5; python_version >= "3.13" and platform_machine == "x86_64"',
        'only-before; python_version < "3.13"',
        'of-windows; sys_platform == "win32"',
        'of-an-extra; extra == "other"',
    )
    there, before = requirements(of("3.13"), (), jax), requirements(of("3.12"), (), jax)
    assert there["only-there"] == "only-there<5,>=2"  # not installed here: pip chooses within the bounds
    assert "only-before" not in there
    assert "only-before" in before
    assert "only-there" not in before
    assert not {"of-windows", "of-an-extra"} & there.keys()


def test_an_accelerator_brings_its_libraries_and_what_they_require(target: Target) -> None:
    lines = requirements(target, ("cuda",), {})
    (plugin,) = (name for name in lines if name.startswith("jax-cuda") and name.endswith("plugin"))
    assert "==" not in lines[plugin]
    assert plugin not in requirements(target, (), {})
    found = wheel(plugin, version("jax"), 'of-the-plugin>1; extra == "with-cuda"')
    assert requirements(target, ("cuda",), found)["of-the-plugin"] == "of-the-plugin>1"


def test_a_version_that_another_distribution_cannot_use_is_refused(target: Target) -> None:
    with pytest.raises(BundleError, match=r"numpy 1\.0 conflicts with .*, which requires numpy"):
        requirements(target, (), wheel("numpy", "1.0"))
