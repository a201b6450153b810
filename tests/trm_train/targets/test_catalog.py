"""Targets by name, and the errors for an unknown target and a missing compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from trm_train.errors import ConfigError
from trm_train.targets.catalog import FOLDER, TARGETS, check_packages, environment, find_target


def test_a_v4_64_has_32_devices_of_32_gib() -> None:
    target = find_target("v4-64")
    assert (target.devices, target.topology, target.usable_bytes) == (32, "v4:2x4x4", 32 * 2**30)
    assert target.peak_flops == 32 * 275e12


def test_slices_of_a_generation_are_named_by_cores_or_by_chips() -> None:
    devices = {
        name: TARGETS[name].devices for name in ("v4-8", "v5p-16", "v5e-16", "v6e-8", "h200x8", "a100")
    }
    assert devices == {"v4-8": 4, "v5p-16": 8, "v5e-16": 16, "v6e-8": 8, "h200x8": 8, "a100": 1}


@pytest.mark.parametrize(("typed", "meant"), [("v4_64", "v4-64"), ("h10", "h100"), ("v6e", "v6e-4")])
def test_an_unknown_target_is_refused_with_the_nearest_name(typed: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"got '{typed}'.*Did you mean {meant}"):
        find_target(typed)


def test_a_target_without_its_compiler_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    with pytest.raises(ConfigError, match=r"missing libtpu.*uv pip install --target .* libtpu==0\.0\."):
        check_packages(find_target("v4-64"))
    with pytest.raises(ConfigError, match="missing jax-cuda12-plugin, jax-cuda12-pjrt"):
        check_packages(find_target("h100"))


def test_the_environment_of_a_compiling_process_names_its_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=x")
    assert environment(find_target("v5e-16"))["TPU_ACCELERATOR_TYPE"] == "v5litepod-16"
    flags = environment(find_target("h100"))["XLA_FLAGS"]
    assert flags == "--xla_dump_to=x --xla_gpu_enable_triton_gemm=false"
