"""Load the scripts in `tools/` as modules, to test what they write."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from tests.conftest import PROJECT


def load_tool(name: str) -> ModuleType:
    """Load the script `tools/<name>.py`, which is not part of a package."""
    spec = importlib.util.spec_from_file_location(f"tools_{name}", PROJECT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module
