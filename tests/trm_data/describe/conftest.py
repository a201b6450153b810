"""Fixtures of several tests of descriptions."""

from __future__ import annotations

import pytest

from tests.trm_data.kinds.test_arc import request
from tests.trm_eval.test_votes import arc_folder
from trm_data.building.flow import build_dataset
from trm_data.storage.root import Layout, resolve_root


@pytest.fixture(scope="module")
def arc(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A root with a dataset of a few tasks, `arc`. Tests must not change it."""
    folder = tmp_path_factory.mktemp("tasks")
    layout = resolve_root(folder / "root")
    build_dataset(request(arc_folder(folder / "arc"), aug=3, val_size=1), layout)
    return layout
