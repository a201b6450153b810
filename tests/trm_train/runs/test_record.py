"""Records of runs: written once, read back, found by name, and refused if inconsistent."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.trm_train.test_loop import EXPERIMENT, TINY
from trm_data.manifest import read_manifest
from trm_data.storage.atomic import with_digest
from trm_data.storage.root import Layout, resolve_root
from trm_data.storage.store import Folder
from trm_train.config.run import identity_hash
from trm_train.errors import ConfigError
from trm_train.experiments.registry import find_experiment
from trm_train.experiments.setting import Setting
from trm_train.runs.record import (
    CONFIG_FILE,
    FORMAT_VERSION,
    RunRecord,
    extend_record,
    find_record,
    find_run,
    input_spec,
    list_runs,
    make_record,
    read_record,
    read_records,
    run_folder,
    write_record,
)
from trm_train.runs.resume import continue_record
from trm_train.runs.status import find_runs


@pytest.fixture(scope="module")
def record(small_layout: Layout) -> RunRecord:
    return make_record(EXPERIMENT, TINY, read_manifest(small_layout, "small"))


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return resolve_root(tmp_path)


@pytest.fixture
def folder(layout: Layout, record: RunRecord) -> Folder:
    """Folder of a run with a record."""
    folder = run_folder(layout, EXPERIMENT, TINY)
    write_record(folder, record)
    return folder


def test_a_record_is_read_back(folder: Folder, record: RunRecord) -> None:
    assert read_record(folder) == record
    assert folder.path == f"runs/testing/tiny/{record.run}"
    assert "extended_to" not in json.loads(folder.read(CONFIG_FILE) or b"")


def test_an_extension_stands_beside_the_original(folder: Folder, record: RunRecord) -> None:
    with pytest.raises(ConfigError, match=r"--extend: not with optim.lr_min_ratio|--extend: got"):
        extend_record(record, 12)
    constant = dataclasses.replace(TINY, optim=dataclasses.replace(TINY.optim, lr_min_ratio=1.0))
    longer = extend_record(dataclasses.replace(record, config=constant), 20)
    write_record(folder, longer)
    found = read_record(folder)
    assert (found.total_steps, found.config.total_steps, found.extended_to) == (20, 12, 20)
    assert found.identity == record.identity
    with pytest.raises(ConfigError, match="was extended to 20 already, got 16"):
        extend_record(found, 16)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{}", "is not a record of a run"),
        (
            json.dumps(with_digest({"format_version": FORMAT_VERSION + 1})).encode(),
            "newer version of trm-train; upgrade it",
        ),
        (json.dumps({"format_version": 1, "config": {"warp": 9}}).encode(), "warp"),
        (json.dumps({"format_version": FORMAT_VERSION}).encode(), "was edited or damaged"),
    ],
)
def test_records_that_cannot_be(folder: Folder, layout: Layout, content: bytes, message: str) -> None:
    folder.write(CONFIG_FILE, content)
    with pytest.raises(ConfigError, match=message):
        read_record(folder)
    ((where, problem),) = read_records(layout)
    assert where == folder
    assert isinstance(problem, ConfigError)


def edited(folder: Folder, **changes: Any) -> None:
    """Change a record and update its digest."""
    value = json.loads(folder.read(CONFIG_FILE) or b"")
    for name, change in changes.items():
        value[name] = {**value[name], **change} if isinstance(change, dict) else change
    folder.write(CONFIG_FILE, json.dumps(with_digest(value)).encode())


def test_records_of_format_1_had_no_digest(folder: Folder, record: RunRecord) -> None:
    write_record(folder, record)
    value = json.loads(folder.read(CONFIG_FILE) or b"")
    del value["digest"]
    folder.write(CONFIG_FILE, json.dumps(value | {"format_version": 1}).encode())
    assert read_record(folder) == record
    folder.write(CONFIG_FILE, json.dumps(value).encode())
    with pytest.raises(ConfigError, match=r"was edited or damaged \(its digest differs\)"):
        read_record(folder)


OUTSIDE = "../../../OUTSIDE"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": {"total_steps": 13}}, "its configuration is that of tiny-"),
        ({"identity": "0" * 64}, "edited or damaged. Restore it"),
        ({"run": OUTSIDE}, f"names the run '{OUTSIDE}'"),
        ({"experiment": OUTSIDE}, f"experiment '{OUTSIDE}': expected up to 100 letters, digits and _"),
        ({"group": OUTSIDE}, f"group '{OUTSIDE}'"),
        ({"group": "other"}, "at runs/other/tiny/tiny-"),
        ({"label": "a\nb"}, "is not a record of a run"),
        ({"input_spec": {"vocabulary_size": None}}, "is not a record of a run (vocabulary_size None)"),
    ],
)
def test_a_record_must_agree_with_itself_and_its_place(
    folder: Folder, layout: Layout, changes: dict[str, Any], message: str
) -> None:
    edited(folder, **changes)
    for reference in (folder.place, folder.name):
        with pytest.raises(ConfigError, match=re.escape(message)):
            read_record(find_run(layout, reference))


def test_a_copy_beside_the_run_is_no_second_run(folder: Folder, layout: Layout, record: RunRecord) -> None:
    copy = layout.runs.within("testing/tiny/tiny-00000000-s0")
    copy.write(CONFIG_FILE, folder.read(CONFIG_FILE) or b"")
    with pytest.raises(ConfigError, match=f"belongs to the run {record.run} at {folder.path}"):
        read_record(copy)


def test_a_folder_without_a_record_is_no_run(layout: Layout) -> None:
    empty = layout.runs.within("testing/tiny/tiny-00000000-s0")
    assert find_record(empty) is None
    with pytest.raises(ConfigError, match="is not a run folder: config"):
        read_record(empty)
    assert list_runs(layout) == []


def test_runs_are_found_by_name_folder_and_experiment(folder: Folder, layout: Layout) -> None:
    for reference in (folder.name, folder.place, "tiny"):
        assert find_run(layout, reference) == folder
    with pytest.raises(ConfigError, match=f"no run 'nothing' under .*; there are: {folder.name} "):
        find_run(layout, "nothing")
    with pytest.raises(ConfigError, match=r"there are none yet"):
        find_run(resolve_root(Path(layout.place) / "elsewhere"), "tiny")


def of_experiment(layout: Layout, record: RunRecord, name: str, **changes: Any) -> Folder:
    """Return the run of an experiment with other configuration values; it took no step."""
    item = find_experiment(name)
    config = dataclasses.replace(item.make(), **changes)
    setting = item.setting()
    folder = run_folder(layout, item, config)
    write_record(
        folder,
        dataclasses.replace(
            record,
            experiment=name,
            group=item.group,
            run=folder.name,
            config=config,
            identity=identity_hash(config),
            scale=setting.scale,
            data=setting.data,
        ),
    )
    return folder


def test_of_several_runs_of_an_unknown_experiment_one_must_be_named(
    folder: Folder, layout: Layout, record: RunRecord
) -> None:
    seed = dataclasses.replace(TINY, seed=1)
    other: Any = run_folder(layout, EXPERIMENT, seed)
    write_record(other, dataclasses.replace(record, config=seed, run=other.name))
    with pytest.raises(ConfigError, match=r"tiny: has 2 runs\. Name one:") as error:
        find_run(layout, "tiny")
    assert all(name in str(error.value) for name in (folder.name, other.name))
    assert find_run(layout, other.name) == other


def test_an_experiment_names_the_run_that_it_defines_whatever_else_is_there(
    layout: Layout, record: RunRecord
) -> None:
    defined = of_experiment(layout, record, "quickstart")
    damaged = of_experiment(layout, record, "quickstart", seed=1)
    of_experiment(layout, record, "quickstart", total_steps=20)
    damaged.write(CONFIG_FILE, b"{")
    assert find_run(layout, "quickstart") == defined
    assert find_runs(layout, ["quickstart"]) == [defined]
    assert find_run(layout, "quickstart", Setting("tiny", "generated")) == defined


def test_where_the_defined_run_is_missing_the_others_are_shown(layout: Layout, record: RunRecord) -> None:
    seed = of_experiment(layout, record, "quickstart", seed=1)
    assert find_run(layout, "quickstart") == seed  # the only one
    short = of_experiment(layout, record, "quickstart", total_steps=20)
    for setting in (None, Setting("tiny", "generated")):
        with pytest.raises(ConfigError, match=r"quickstart: has 2 runs.*quickstart-2626ad84-s0") as error:
            find_run(layout, "quickstart", setting)
        assert all(run.name in str(error.value) for run in (seed, short))


def test_a_folder_elsewhere_is_a_run_too(folder: Folder, layout: Layout, tmp_path_factory: Any) -> None:
    other = resolve_root(tmp_path_factory.mktemp("other"))
    assert read_record(find_run(other, folder.place)) == read_record(folder)


@pytest.mark.parametrize("written_as", [1, 2, 3])
def test_older_records_are_read_without_counts(folder: Folder, record: RunRecord, written_as: int) -> None:
    value = json.loads(folder.read(CONFIG_FILE) or b"") | {"format_version": written_as}
    for name in ("digest", "parameters", "training_flops", "evaluation_flops", "label"):
        del value[name]
    folder.write(CONFIG_FILE, json.dumps(value if written_as == 1 else with_digest(value)).encode())
    unknown = dataclasses.replace(record, parameters=None, training_flops=None, evaluation_flops=None)
    assert read_record(folder) == unknown


def test_a_record_says_the_grid_where_there_is_one(
    folder: Folder, record: RunRecord, small_layout: Layout
) -> None:
    assert record.input_spec.grid == (6, 6)
    flat = dataclasses.replace(read_manifest(small_layout, "small"), grid_rows=1, grid_columns=36)
    assert input_spec(flat).grid is None
    unknown = dataclasses.replace(record, input_spec=input_spec(flat))
    write_record(folder, unknown)
    assert (
        "grid" not in json.loads(folder.read(CONFIG_FILE) or b"")["input_spec"]
    )  # as before grids were recorded
    assert read_record(folder) == unknown


@pytest.mark.parametrize("grid", [[5, 6], [6.0, 6.0], [True, 36], [-6, -6], [6], "66", 36, [6, 6, 1]])
def test_a_grid_that_is_not_of_the_cells_is_refused(folder: Folder, grid: Any) -> None:
    edited(folder, input_spec={"grid": grid})
    with pytest.raises(ConfigError, match=r"config\.json"):
        read_record(folder)


def test_a_run_that_goes_on_keeps_its_counts_and_its_label(folder: Folder, record: RunRecord) -> None:
    write_record(folder, dataclasses.replace(record, training_flops=7.0, label="first try"))
    again = continue_record(folder, record)
    assert (again.training_flops, again.label) == (7.0, "first try")
    assert continue_record(folder, dataclasses.replace(record, label="second")).label == "second"
