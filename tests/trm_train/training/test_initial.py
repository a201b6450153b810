"""Runs that start from given weights: from a file or from another run.

Published weights: imported as a run, exported from one, and refused if they do not fit.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from tests.conftest import error_of, run_here
from tests.trm_train.training.published_files import NAMES, NETWORK, PUBLISHED, TABLE, add_dataset, published
from trm_data.manifest import read_manifest
from trm_data.storage.atomic import file_sha256
from trm_data.storage.root import Layout, resolve_root
from trm_train.cli import main
from trm_train.config.overrides import parse_config
from trm_train.config.run import RunConfig, identity_hash
from trm_train.errors import CheckpointError, ConfigError
from trm_train.experiments.registry import find_experiment
from trm_train.runs.record import find_run, input_spec, read_record
from trm_train.state import init_state
from trm_train.training.initial import import_weights, saved_weights, start_from
from trm_train.weights import read_weights, write_weights_file


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A root with `one` (only the blank identifier), `three` (the fixture's), `others` (`a` and two new ones), and
    `seven` (7 tokens).
    """
    folder = tmp_path_factory.mktemp("initial")
    layout = resolve_root(folder / "root")
    add_dataset(layout, "one", folder, ["<blank>"])
    add_dataset(layout, "three", folder, NAMES)
    add_dataset(layout, "others", folder, ["<blank>", "b", "a", "c"])
    add_dataset(layout, "seven", folder, ["<blank>"], vocabulary=7)
    return layout


@pytest.fixture(scope="module")
def run(layout: Layout, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run on `three` with the fixture's weights."""
    names = tmp_path_factory.mktemp("names") / "identifiers.json"
    names.write_text(json.dumps(NAMES))
    return import_weights(PUBLISHED, find_experiment("quickstart"), config("three"), layout, names).run


SHORT = ("--total-steps", "3", "--optim.lr-warmup-steps", "0", "--data.global-batch-size", "4")


def config(dataset: str, *more: str) -> RunConfig:
    """Return the quickstart with the fixture's network."""
    base = find_experiment("quickstart").make()
    return parse_config(base, [*NETWORK, *SHORT, "--data.dataset", dataset, *more])


def trained(layout: Layout, dataset: str, source: str, *more: str) -> Any:
    """Run `trm-train run --init-from`; return the finished process."""
    named = ["run", "quickstart", "--root", layout.place, "--data.dataset", dataset, "--init-from", source]
    return run_here(main, *named, *NETWORK, *SHORT, "--tracking", "none", *more)


def test_a_run_starts_from_the_values_of_a_file(layout: Layout) -> None:
    named, initial = start_from(str(PUBLISHED), config("one"), layout)
    spec = input_spec(read_manifest(layout, "one"))
    state = jax.device_get(init_state(named, spec, 4, weights=initial.weights)[1])
    tensors = published()
    for params in (state.params, state.ema):
        assert np.array_equal(params["lm_head"]["kernel"], tensors["inner.lm_head.weight"].T)
    assert np.array_equal(state.fixed["l_init"], tensors["inner.L_init"])
    assert np.array_equal(state.puzzle_table[:1], tensors[TABLE][:1])
    drawn = jax.device_get(init_state(named, spec, 4)[1])
    assert np.array_equal(state.key, drawn.key)
    assert state.step == 0


def test_the_identity_holds_a_digest_and_not_the_path(layout: Layout, tmp_path: Path) -> None:
    plain = config("one")
    copied = shutil.copy(PUBLISHED, tmp_path / "other name.safetensors")
    named = [start_from(str(path), plain, layout)[0] for path in (PUBLISHED, copied)]
    assert named[0] == named[1]
    assert identity_hash(named[0]) != identity_hash(plain)
    assert len(named[0].initial.weights) == 64


def test_a_file_and_the_run_that_holds_it_are_the_same_start(layout: Layout) -> None:
    held = import_weights(PUBLISHED, find_experiment("quickstart"), config("one"), layout).run
    configs = [start_from(source, config("one"), layout)[0] for source in (held, f"{held}@0", str(PUBLISHED))]
    assert configs[0] == configs[1] == configs[2]


def test_embedding_rows_of_the_same_identifiers_stay(layout: Layout, run: str) -> None:
    _, initial = start_from(run, config("three"), layout)
    assert np.array_equal(initial.weights.puzzle_table[:3], published()[TABLE])
    assert "mean" not in initial.note


def test_new_embedding_rows_start_at_the_mean_and_it_is_said(layout: Layout, run: str) -> None:
    _, initial = start_from(run, config("others"), layout)
    old = published()[TABLE]
    assert np.array_equal(initial.weights.puzzle_table[[0, 2]], old[[0, 1]])
    assert np.allclose(initial.weights.puzzle_table[[1, 3]], old.mean(axis=0), atol=1e-7)
    assert "2 of 4 embedding rows are new" in initial.note


@pytest.mark.integration
def test_a_frozen_network_keeps_the_weights_and_the_log_says_where_they_come_from(
    layout: Layout, run: str
) -> None:
    done = trained(layout, "others", run, "--optim.freeze-weights", "--json")
    assert done.returncode == 0, done.stderr
    folder = find_run(layout, json.loads(done.stdout)["run"])
    _, step, weights = saved_weights(folder, None)
    assert step == 3
    assert np.allclose(weights.params["lm_head"]["kernel"], published()["inner.lm_head.weight"].T, atol=1e-6)
    assert not np.array_equal(weights.puzzle_table[0], published()[TABLE][0])
    logs = folder.within("logs")
    log = b"".join(logs.read(name) or b"" for name in logs.names()).decode()
    assert run in log
    assert "mean of the 3 old" in log


@pytest.mark.integration
def test_the_same_command_goes_on_and_a_dry_run_names_the_same_run(layout: Layout) -> None:
    first = json.loads(trained(layout, "one", str(PUBLISHED), "--json").stdout)
    again = json.loads(trained(layout, "one", str(PUBLISHED), "--json").stdout)
    planned = json.loads(trained(layout, "one", str(PUBLISHED), "--json", "--dry-run").stdout)
    assert first["run"] == again["run"] == planned["run"]
    assert (first["started_at"], again["started_at"]) == (0, 3)


def test_weights_of_another_network_are_refused_with_every_difference(layout: Layout, run: str) -> None:
    other = config("one", "--model.hidden-size", "64", "--model.num-layers", "3")
    with pytest.raises(CheckpointError) as refused:
        start_from(run, other, layout)
    said = str(refused.value)
    assert "missing: params.level.block_2" in said
    assert "fixed.h_init: shape (32,); expected (64,)" in said
    with pytest.raises(CheckpointError, match=r"missing: inner\.L_level\.layers\.2"):
        start_from(str(PUBLISHED), other, layout)


def test_what_is_not_there_is_refused(layout: Layout, run: str) -> None:
    for source, said in (("nobody", "nobody"), ("none.safetensors", "no such file"), (f"{run}@5", "step 5")):
        done = trained(layout, "one", source)
        assert done.returncode == 2
        assert said in done.stderr


def test_several_processes_start_from_a_file_only(layout: Layout, run: str) -> None:
    hosts: Any = SimpleNamespace(count=2)
    with pytest.raises(ConfigError, match="export-weights"):
        start_from(run, config("one"), layout, hosts)
    start_from(str(PUBLISHED), config("one"), layout, hosts)


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Published identifiers.json."""
    path = tmp_path_factory.mktemp("names") / "identifiers.json"
    path.write_text(json.dumps(NAMES))
    return path


def words(layout: Layout, file: Path, dataset: str, *more: str) -> list[str]:
    """Return the command that imports a file."""
    named = ["import-weights", str(file), "--as", "quickstart", "--dataset", dataset]
    return [*named, "--root", layout.place, *NETWORK, *more]


def imported(layout: Layout, file: Path, dataset: str, *more: str) -> dict[str, Any]:
    """Import a file; return the JSON output of the command."""
    done = run_here(main, *words(layout, file, dataset, *more, "--json"))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def stored(layout: Layout, run: str) -> Any:
    """Return the weights of a run."""
    return saved_weights(find_run(layout, run), None)[2]


def test_an_imported_run_has_the_digest_of_its_file_and_the_values(layout: Layout) -> None:
    facts = imported(layout, PUBLISHED, "one")
    record = read_record(find_run(layout, facts["run"]))
    assert record.config.initial.imported == facts["sha256"] == file_sha256(PUBLISHED)
    assert record.run.startswith("quickstart-")
    assert (facts["rows"], facts["identifiers"], facts["matched"]) == (3, 1, 1)
    weights, tensors = stored(layout, facts["run"]), published()
    assert np.array_equal(weights.params["lm_head"]["kernel"], tensors["inner.lm_head.weight"].T)
    assert np.array_equal(weights.fixed["h_init"], tensors["inner.H_init"])
    assert np.array_equal(weights.puzzle_table, tensors[TABLE][:1])


def test_a_round_trip_is_equal_in_values(layout: Layout, names: Path, tmp_path: Path) -> None:
    run = imported(layout, PUBLISHED, "three", "--identifiers", str(names))["run"]
    out = tmp_path / "weights.safetensors"
    done = run_here(main, "export-weights", f"{run}@0", "--out", str(out), "--root", layout.place)
    assert done.returncode == 0, done.stderr
    assert "identifiers.json" in done.stdout
    found, tensors = read_weights(out), published()
    assert found.keys() == tensors.keys()
    assert all(np.array_equal(found[name], tensors[name]) for name in tensors)
    again = imported(layout, out, "three", "--identifiers", str(names))["run"]
    ours, theirs = stored(layout, again), stored(layout, run)
    assert np.array_equal(ours.puzzle_table, theirs.puzzle_table)
    assert np.array_equal(ours.params["q_head"]["bias"], theirs.params["q_head"]["bias"])


def test_rows_are_matched_by_name_and_others_are_the_mean(layout: Layout, names: Path) -> None:
    facts = imported(layout, PUBLISHED, "others", "--identifiers", str(names))
    assert (facts["matched"], facts["identifiers"], facts["rows"]) == (2, 4, 3)
    rows, old = stored(layout, facts["run"]).puzzle_table, published()[TABLE]
    assert np.array_equal(rows[[0, 2]], old[[0, 1]])
    assert np.allclose(rows[[1, 3]], old.mean(axis=0), atol=1e-7)


def test_rows_without_names_are_refused(layout: Layout, names: Path, tmp_path: Path) -> None:
    code, said = error_of(main, *words(layout, PUBLISHED, "three"))
    assert (code, "--identifiers" in said, "identifiers.json" in said) == (2, True, True)
    for content in ('["<blank>"]', "{}", '["<blank>", "a", 3]', "no json", '["<blank>", "x", "y"]'):
        (tmp_path / "names.json").write_text(content)
        code, said = error_of(
            main, *words(layout, PUBLISHED, "three", "--identifiers", str(tmp_path / "names.json"))
        )
        assert code == 2
        assert "--identifiers" in said


def test_all_that_does_not_fit_is_said_at_once(layout: Layout, tmp_path: Path) -> None:
    tensors = published()
    del tensors["inner.lm_head.weight"]
    tensors["inner.extra"] = np.zeros(2, np.float32)
    tensors["inner.q_head.bias"] = np.zeros(3, np.float32)
    tensors["inner.H_init"] = np.full(32, np.nan, np.float32)
    tensors[TABLE] = np.zeros((3, 31), np.float32)
    write_weights_file(tmp_path / "odd.safetensors", tensors)
    done = run_here(main, *words(layout, tmp_path / "odd.safetensors", "one"))
    assert done.returncode == 2
    lines = [line.strip() for line in done.stderr.splitlines()]
    assert "missing: inner.lm_head.weight" in lines
    assert "unknown: inner.extra" in lines
    for name in ("inner.q_head.bias: shape (3,)", "inner.H_init: has", f"{TABLE}: shape (3, 31)"):
        assert any(line.startswith(name) for line in lines), name


def test_a_dataset_with_another_vocabulary_or_length_is_refused(layout: Layout, tmp_path: Path) -> None:
    done = run_here(main, *words(layout, PUBLISHED, "seven"))
    assert done.returncode == 2
    assert "inner.lm_head.weight: shape (6, 32); expected (7, 32)" in done.stderr
    assert "16 cells, 7 tokens" in done.stderr


def test_names_that_differ_in_their_prefix_alone_are_refused(layout: Layout, tmp_path: Path) -> None:
    tensors = published()
    twice = tensors | {"model.inner.H_init": tensors["inner.H_init"]}
    write_weights_file(tmp_path / "twice.safetensors", twice)
    done = run_here(main, *words(layout, tmp_path / "twice.safetensors", "one"))
    assert done.returncode == 2
    assert "prefix" in done.stderr


def test_a_network_without_published_names_is_refused(layout: Layout) -> None:
    code, said = error_of(main, *words(layout, PUBLISHED, "one", "--model.multi-scale"))
    assert code == 2
    assert "published names" in said


def test_missing_files_datasets_and_runs_are_refused(layout: Layout, tmp_path: Path) -> None:
    out = tmp_path / "weights.safetensors"
    for command, said in (
        (words(layout, tmp_path / "none.npz", "one"), "none.npz"),
        (words(layout, PUBLISHED, "nowhere"), "nowhere"),
        (["export-weights", "nobody", "--out", str(out), "--root", layout.place], "nobody"),
        (["export-weights", "nobody", "--out", "weights.pt", "--root", layout.place], "nobody"),
    ):
        code, line = error_of(main, *command)
        assert (code, said in line) == (2, True), line
    run = imported(layout, PUBLISHED, "one")["run"]
    for file in ("weights.pt", str(PUBLISHED)):
        assert error_of(main, "export-weights", run, "--out", file, "--root", layout.place)[0] == 2
    code, line = error_of(main, "export-weights", f"{run}@7", "--out", str(out), "--root", layout.place)
    assert (code, "step 7" in line) == (2, True)
    assert not out.exists()
