"""Experiments: found by their files, guided by fields, built and planned by the name of their dataset."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import pytest

from trm_data.named import named_dataset
from trm_data.storage.root import resolve_root
from trm_train import experiments
from trm_train.cli import main
from trm_train.errors import ConfigError
from trm_train.experiments import registry
from trm_train.experiments.dataset import plan_dataset
from trm_train.experiments.guide import Guide
from trm_train.experiments.registry import (
    Experiment,
    check_distinct,
    datasets_by_experiment,
    find_experiment,
    find_run_of,
    load_experiments,
)

QUICKSTART = find_experiment("quickstart").make()
FIELDS = {"question": "Why?", "varies": "a", "fixed": "b", "expected": "c", "judge_by": "d", "cost": "e"}


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


@pytest.mark.parametrize("name", list(load_experiments()))
def test_every_experiment_has_a_guide_and_a_dataset(name: str) -> None:
    item = find_experiment(name)
    assert item.guide is not None
    assert item.summary.endswith("?")
    assert all(dataclasses.asdict(item.guide).values())
    assert item.build == f"trm-data build {item.dataset}"
    assert datasets_by_experiment()[name] == item.make().data.dataset


def test_the_quickstart_builds_what_its_run_is_named_after() -> None:
    named = named_dataset("sudoku-2x3-generated-500-aug-1000")
    assert named.kind == "sudoku"
    assert named.options == {"box": "2x3", "size": 500, "aug": 1000, "val_size": 200, "test_size": 1000}


def test_a_guide_reads_as_lines() -> None:
    assert Guide(**FIELDS).text().splitlines() == [
        "Why?", "", "Varies:    a", "Fixed:     b", "Expected:  c", "Judge by:  d", "Cost:      e",
    ]  # fmt: skip


def test_a_guide_lacks_nothing() -> None:
    for missing in FIELDS:
        with pytest.raises(TypeError, match=missing):
            Guide(**{name: text for name, text in FIELDS.items() if name != missing})


@pytest.fixture
def one_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file beside the others, with an experiment and an alias of the quickstart."""
    (tmp_path / "more.py").write_text(f"""
import dataclasses
from trm_train.experiments.guide import Guide
from trm_train.experiments.quickstart import quickstart
from trm_train.experiments.registry import experiment

GUIDE = Guide(**{FIELDS!r})

@experiment(GUIDE)
def another():
    return dataclasses.replace(quickstart(), total_steps=7_000)

@experiment(GUIDE, alias_of="quickstart")
def same():
    return quickstart()
""")
    monkeypatch.setattr(experiments, "__path__", [*experiments.__path__, str(tmp_path)])
    monkeypatch.setattr(registry, "_EXPERIMENTS", dict(registry._EXPERIMENTS))
    monkeypatch.delitem(sys.modules, "trm_train.experiments.more", raising=False)


def test_a_file_is_found_by_being_there(one_more: None, capsys: pytest.CaptureFixture[str]) -> None:
    found = find_experiment("another")
    assert (found.group, found.make().total_steps) == ("more", 7_000)
    _, listed, _ = output(capsys, "list")
    assert "another" in listed
    assert "Why? (the run of quickstart)" in listed
    _, as_json, _ = output(capsys, "list", "--json")
    aliases = {item["name"]: item["alias_of"] for item in json.loads(as_json)}
    assert (aliases["same"], aliases["another"]) == ("quickstart", None)


def test_an_alias_is_the_run_of_what_it_names(
    one_more: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert find_run_of("same").name == find_run_of("quickstart").name == "quickstart"
    assert find_experiment("same").name == "same"
    arguments = ("--dry-run", "--json", "--root", str(tmp_path), "--seed", "4")
    _, plan, _ = output(capsys, "run", "same", *arguments)
    assert json.loads(plan)["run"] == "quickstart-2626ad84-s4"


def test_unknown_experiments_name_the_closest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'quickstart'"):
        find_experiment("quikstart")


def test_two_names_for_one_run_are_refused_unless_declared() -> None:
    def item(name: str, alias_of: str | None = None, **changes) -> Experiment:
        config = dataclasses.replace(QUICKSTART, **changes)
        return Experiment(name, "group", lambda: config, None, alias_of)

    with pytest.raises(ConfigError, match="a and b are the same run"):
        check_distinct([item("a"), item("b")])
    check_distinct([item("a"), item("b", alias_of="a")])
    check_distinct([item("b", alias_of="a"), item("a")])
    check_distinct([item("a"), item("b", total_steps=3), item("c", seed=1)])
    with pytest.raises(ConfigError, match="b is declared an alias of a, but is another run"):
        check_distinct([item("a"), item("b", alias_of="a", total_steps=3)])
    with pytest.raises(ConfigError, match="alias of z, which is no experiment"):
        check_distinct([item("a"), item("b", alias_of="z")])
    with pytest.raises(ConfigError, match=r"alias of b, which is an alias itself \(of a\)"):
        check_distinct([item("a"), item("b", alias_of="a"), item("c", alias_of="b")])


def test_describe_gives_the_fields_of_the_guide(capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = output(capsys, "describe", "quickstart")
    for words in ("Judge by:  `trm-eval run`", "Varies:    nothing", "sudoku-2x3-generated-500-aug-1000"):
        assert words in text
    _, as_json, _ = output(capsys, "describe", "quickstart", "--json")
    facts = json.loads(as_json)
    assert facts["guide"]["cost"] == "about 4 minutes on 2 CPU cores"
    assert facts["build"] == "trm-data build sudoku-2x3-generated-500-aug-1000"
    assert facts["config"]["total_steps"] == 1500


def test_a_dry_run_needs_no_dataset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = output(capsys, "run", "quickstart", "--dry-run", "--json", "--root", str(tmp_path))
    plan = json.loads(out)
    assert code == 0
    assert plan["run"] == "quickstart-2626ad84-s0"
    assert plan["batch"]["inputs"] == "uint8[32, 36]"
    assert plan["dataset"] == {
        "name": "sudoku-2x3-generated-500-aug-1000",
        "built": False,
        "content_digest": None,
        "groups": 500,
        "num_identifiers": 1,
        "identifiers": "exact",
    }
    assert plan["epochs"] == 1500 * 32 / 500
    code, out, _ = output(capsys, "run", "quickstart", "--dry-run", "--root", str(tmp_path))
    assert "not built (--build builds it); by its specification 500 groups" in out
    assert not (tmp_path / "runs").exists()
    assert not (tmp_path / "datasets").exists()


def test_sizes_that_only_the_source_knows_are_called_unknown() -> None:
    every, some = plan_dataset("arc1concept-aug-1000"), plan_dataset("arc1concept-60-aug-1000")
    assert every is not None
    assert some is not None
    assert (every.groups, every.identifiers, every.input_spec.num_identifiers) == (None, "unknown", 1)
    assert (some.groups, some.identifiers, some.input_spec.num_identifiers) == (60, "at most", 60 * 1001 + 1)
    assert (some.input_spec.sequence_length, some.input_spec.vocabulary_size) == (900, 12)
    assert plan_dataset("nobody-knows-this") is None


def test_what_is_planned_is_what_is_built(tmp_path: Path) -> None:
    """A build of a named specification has the shapes that were planned for it."""
    from trm_data.build.flow import build_dataset
    from trm_train.run.record import input_spec

    named = named_dataset(TINY)
    manifest = build_dataset(named.request(), resolve_root(tmp_path)).manifest
    planned = plan_dataset(named.name)
    assert planned is not None
    assert planned.input_spec == input_spec(manifest)
    assert planned.groups == manifest.splits["train"].num_groups


def test_a_missing_dataset_is_built_first_and_its_run_extended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ("--data.dataset", TINY, "--data.global-batch-size", "4", "--model.hidden-size", "8")
    small += ("--model.num-heads", "2", "--model.num-layers", "1", "--optim.lr-warmup-steps", "1")
    small += ("--total-steps", "2", "--tracking", "none", "--json", "--root", str(tmp_path))
    code, _, err = output(capsys, "run", "quickstart", *small)
    assert code == 2
    assert f"trm-data build {TINY}, or the same command with --build" in err
    code, out, err = output(capsys, "run", "quickstart", *small, "--build")
    assert code == 0, err
    assert json.loads(out)["step"] == 2  # nothing of the build is among what machines read
    assert "digest" in err
    extended = (*small, "--optim.lr-min-ratio", "1")
    names = []
    for steps, arguments in ((2, extended), (3, (*extended, "--extend", "3")), (3, extended)):
        code, out, err = output(capsys, "run", "quickstart", *arguments)
        assert (code, json.loads(out)["step"]) == (0, steps), err
        names.append(json.loads(out)["run"])
    assert len(set(names)) == 1
    manifest = next(resolve_root(tmp_path).dataset(TINY).here.glob("manifest.json"))
    assert json.loads(manifest.read_text())["content_digest"] == named_dataset(TINY).digest
    code, _, err = output(capsys, "run", "quickstart", *small, "--build", "--data.dataset", "nothing-such")
    assert code == 2
    assert "no named dataset 'nothing-such'" in err


TINY = "sudoku-2x2-generated-10-aug-100"
