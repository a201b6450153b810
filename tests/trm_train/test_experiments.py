"""Experiments: found by their files, documented by fields, built and planned by dataset name."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from trm_data.manifest import read_manifest
from trm_data.named import first_name, named_dataset
from trm_data.storage.root import Layout, resolve_root
from trm_train import experiments
from trm_train.cli import main
from trm_train.config.run import (
    InputSpec,
    RunConfig,
    check_config,
    config_from_json,
    config_to_json,
    identity_hash,
)
from trm_train.cost import cost_of
from trm_train.errors import ConfigError
from trm_train.experiments import registry
from trm_train.experiments.claim import Better, Reaches, nearly_best
from trm_train.experiments.dataset import is_named, plan_dataset, plan_datasets
from trm_train.experiments.guide import Guide
from trm_train.experiments.registry import (
    Experiment,
    find_experiment,
    find_run_of,
    groups_of,
    load_experiments,
    select_experiments,
)
from trm_train.experiments.setting import OWN, SETTINGS, Setting, parse_setting
from trm_train.runs.record import make_record, setting_of

QUICKSTART = find_experiment("quickstart").make()
FIELDS = {"question": "Why?", "varies": "a", "fixed": "b", "expected": "c", "judge_by": "d"}


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


def test_every_experiment_has_a_guide_and_a_dataset() -> None:
    for name, item in load_experiments().items():
        assert item.guide is not None, name
        assert item.summary.endswith("?"), name
        guide = dataclasses.asdict(item.guide)
        assert all(text for field, text in guide.items() if field not in ("cost", "claims")), name
        names = item.make().data.names
        assert item.datasets() == tuple(map(first_name, names)), name
        assert all(named_dataset(each) for each in item.datasets()), name
        assert item.dataset() == "+".join(item.datasets()), name


def test_a_guide_reads_as_lines() -> None:
    assert Guide(**FIELDS, metrics="m", cost="e").text().splitlines() == [
        "Why?", "", "Varies:    a", "Fixed:     b", "Expected:  c", "Judge by:  d", "Metrics:   m", "Cost:      e",
    ]  # fmt: skip


def test_a_guide_says_its_claims() -> None:
    guide = Guide(**FIELDS, claims=(Better("b", "a", clearly=True), *nearly_best("b", "a"), Reaches("a", 50)))
    said = "b solves clearly more than a; b is not 2 points worse than a; a reaches 50% exact accuracy"
    assert guide.text().splitlines()[-1] == f"Claims:    {said}"
    assert "; ".join(guide.to_json()["claims"]) == said


def test_claims_are_about_experiments_of_their_group() -> None:
    for group, items in groups_of(load_experiments().values()).items():
        names = {item.name for item in items}
        for item in items:
            for claim in () if item.guide is None else item.guide.claims:
                assert set(claim.names) <= names, (group, claim)
                assert len(set(claim.names)) == len(claim.names), (group, claim)


@pytest.fixture
def one_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None, None, None]:
    """A file next to the others, with an experiment and an alias of the quickstart."""
    (tmp_path / "more.py").write_text(f"""
import dataclasses
from trm_train.experiments.claim import Better, Reaches, nearly_best
from trm_train.experiments.guide import Guide
from trm_train.experiments.quickstart import quickstart
from trm_train.experiments.registry import experiment
from trm_train.experiments.setting import Setting

GUIDE = Guide(**{FIELDS!r})
TINY = Setting("tiny", "generated")

@experiment(GUIDE, setting=TINY)
def another():
    return dataclasses.replace(quickstart(), total_steps=7_000)

@experiment(GUIDE, setting=TINY, alias_of="quickstart")
def same():
    return quickstart()
""")
    monkeypatch.setattr(registry, "_EXPERIMENTS", registry.load_experiments())
    monkeypatch.setattr(experiments, "__path__", [*experiments.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "trm_train.experiments.more", raising=False)
    registry._import_experiments.cache_clear()
    yield
    registry._import_experiments.cache_clear()


def test_a_file_is_found_by_being_there(
    one_more: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRM_ROOT", str(tmp_path / "root"))
    found = find_experiment("another")
    assert (found.group, found.make().total_steps) == ("more", 7_000)
    _, listed, _ = output(capsys, "list")
    assert "another" in listed
    assert re.search(r"same +the run of quickstart; data sudoku-2x3", listed)
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


@pytest.mark.parametrize(
    ("target", "changes", "said"),
    [
        ("quickstart", {"total_steps": 3}, "wrong is declared an alias of quickstart"),
        ("quickstart", {"seed": 1}, "wrong is declared an alias of quickstart"),
        ("zzz", {}, "no experiment 'zzz'"),
    ],
)
def test_an_alias_of_another_run_is_refused(
    monkeypatch: pytest.MonkeyPatch, target: str, changes: dict[str, int], said: str
) -> None:
    config = dataclasses.replace(QUICKSTART, **changes)
    monkeypatch.setattr(registry, "_EXPERIMENTS", registry.load_experiments())
    settings = find_experiment("quickstart").settings
    registry.add_experiment(
        Experiment("wrong", "group", lambda _: config, None, {settings[0]: target}, settings)
    )
    with pytest.raises(ConfigError, match=said):
        find_run_of("wrong")


STUDY_SIZES = {
    "exp01": 6, "exp02a": 6, "exp02b": 5, "exp03": 5, "exp04a": 6, "exp04b": 5, "exp05": 6, "exp06": 6, "exp07": 3,
    "exp08": 5, "exp09": 5, "exp10": 5, "contrib01": 2, "contrib02": 2,
}  # fmt: skip


def test_the_study_has_67_experiments() -> None:
    groups = {name: len(items) for name, items in groups_of(load_experiments().values()).items()}
    assert {name: groups[name] for name in STUDY_SIZES} == STUDY_SIZES
    assert sum(STUDY_SIZES.values()) == 67


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_at_every_setting_runs_are_distinct_sound_and_of_named_datasets(setting: Setting) -> None:
    found = {item.name: item for item in select_experiments([], setting)}
    names: dict[tuple[str, int], str] = {}  # each run has one experiment; others with it are declared aliases
    for name, item in found.items():
        config = item.make(setting)
        assert find_run_of(name, setting).name == names.setdefault(
            (identity_hash(config), config.seed), item.alias_of(setting) or name
        )
    assert set(STUDY_SIZES) <= {item.group for item in found.values()}
    for item in found.values():
        config = item.make(setting)
        check_config(config)
        assert config_from_json(config_to_json(config)) == config
        assert all(map(is_named, config.data.names)), config.data
    of_the_study = [item for item in found.values() if item.group in STUDY_SIZES]
    runs = {identity_hash(item.make(setting)) for item in of_the_study}
    assert len(of_the_study) == 67
    assert len(runs) == (55 if setting.scale == "laptop" else 54)  # whose baseline decays, as no exp10 does


def test_aliases_are_those_that_are_equal_by_design() -> None:
    def aliases(setting: Setting) -> set[str]:
        return {item.name for item in select_experiments([], setting) if item.alias_of() == "baseline"}

    everywhere = {
        "exp01c", "exp02a_03", "exp02b_03", "exp03b", "exp04a_1000", "exp04b_1000", "exp05_d", "exp06_c", "exp08d",
        "exp09a", "exp10b", "contrib01_baseline", "contrib02_baseline", "contrib03_L06",
        "contrib04_baseline", "network_mlp_t",
    }  # fmt: skip
    assert aliases(Setting("full", "published")) == everywhere | {"exp07b"}
    assert find_run_of("contrib05_attention").name == "network_attention"
    assert aliases(Setting("laptop", "generated")) == (
        everywhere - {"exp02b_03", "exp03b", "exp10b"}
        | {"exp02b_01", "exp07a", "paper_trm", "contrib06_sudoku"}
    )
    assert find_run_of("exp03b", Setting("laptop", "generated")).name == "exp02a_06"
    assert aliases(Setting("tiny", "generated")) == everywhere | {"exp07a", "paper_trm"}
    assert find_run_of("exp07b", Setting("full", "published")).name == "baseline"
    assert find_run_of("exp07b", Setting("tiny", "generated")).name == "exp07b"


def test_the_baseline_is_what_the_study_says() -> None:
    config = find_experiment("baseline").make()
    assert (config.data.dataset, config.data.global_batch_size) == ("sudoku-extreme-1000-aug-1000", 6144)
    assert (config.total_steps, config.seed, config.execution.checkpoint_every) == (8138, 0, 1000)
    assert config.total_steps == 50_000 * 1000 // 6144
    assert dataclasses.replace(
        config, data=QUICKSTART.data, total_steps=1, execution=QUICKSTART.execution
    ) == (
        RunConfig(data=QUICKSTART.data, total_steps=1, execution=QUICKSTART.execution)
    )  # everything else has the defaults of the published recipe


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_the_controls_of_a_mixture_learn_as_many_rows_of_their_own(setting: Setting) -> None:
    both, *controls = (item.make(setting) for item in select_experiments(["contrib06"], setting))
    assert both.data.names == tuple(control.data.only_dataset() for control in controls)
    assert both.data.weights == (1.0, 1.0)
    for control in controls:
        assert 2 * control.total_steps == both.total_steps
        assert control.data.global_batch_size == both.data.global_batch_size
        assert (control.model, control.optim, control.seed) == (both.model, both.optim, both.seed)


def test_a_mixture_of_named_datasets_is_planned_before_they_are_built() -> None:
    both = plan_datasets(find_experiment("contrib06_mixture").make(Setting("tiny", "generated")).data.names)
    assert both is not None
    assert both.input_spec == InputSpec(sequence_length=36, vocabulary_size=13, num_identifiers=2)
    assert (both.groups, both.validation_rows, both.test_rows) == (20_000, 400, 2_000)
    assert plan_datasets(["sudoku-2x3-generated-500-aug-100", "nobody-knows-this"]) is None


def varied(group: str, setting: Setting, value) -> list:
    return [value(item.make(setting)) for item in select_experiments([group], setting)]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_varied_values_are_distinct_and_in_proportion(setting: Setting) -> None:
    for group, value, full in (
        ("exp01", lambda c: c.model.hidden_size, [256, 384, 512, 768, 1024, 1536]),
        ("exp02a", lambda c: c.model.l_cycles, [2, 4, 6, 8, 10, 12]),
        ("exp02b", lambda c: c.model.h_cycles, [1, 2, 3, 4, 5]),
        ("exp03", lambda c: c.model.num_layers, [1, 2, 3, 4, 6]),
        ("exp05", lambda c: c.model.halt_max_steps, [4, 8, 12, 16, 24, 32]),
        ("exp06", lambda c: c.data.global_batch_size, [1536, 3072, 6144, 12288, 24576, 49152]),
        ("exp04a", lambda c: int(c.data.dataset.split("-")[-3]), [100, 250, 500, 1000, 2000, 5000]),
        ("exp04b", lambda c: int(c.data.dataset.split("-")[-1]), [10, 100, 500, 1000, 2000]),
    ):
        values = varied(group, setting, value)
        assert (
            len({got * full[0] / (wanted * values[0]) for got, wanted in zip(values, full, strict=True)}) == 1
        )
    for config in (item.make(setting) for item in select_experiments(["exp03"], setting)):
        assert config.model.num_layers * config.model.l_cycles == 12
    baseline = find_experiment("baseline").make(setting)
    for config in (item.make(setting) for item in select_experiments(["exp06"], setting)):
        share = config.data.global_batch_size / baseline.data.global_batch_size
        assert config.optim.lr == pytest.approx(baseline.optim.lr * share**0.5, rel=1e-5)
        assert config.optim.puzzle_emb_lr == pytest.approx(
            baseline.optim.puzzle_emb_lr * share**0.5, rel=1e-5
        )
        loaded = config.total_steps * config.data.global_batch_size
        assert loaded == pytest.approx(baseline.total_steps * baseline.data.global_batch_size, rel=1e-3)
        assert config.optim.lr_warmup_steps == round(baseline.optim.lr_warmup_steps / share)


def test_patterns_name_groups_beginnings_and_globs() -> None:
    def names(*patterns: str, setting: Setting | None = None) -> list[str]:
        return [item.name for item in select_experiments(patterns, setting)]

    assert names("exp07") == ["exp07a", "exp07b", "exp07c"] == names("exp07*") == names("exp07[a-c]")
    assert names("exp02")[:2] == ["exp02a_01", "exp02a_02"]
    assert names("exp02")[-1] == "exp02b_05"
    assert names("contrib0[12]*") == [
        "contrib01_baseline", "contrib01_curriculum", "contrib02_baseline", "contrib02_adaptive",
    ]  # fmt: skip
    assert names("exp05_a", "exp05", "exp05_a") == names("exp05")
    assert len(names()) == len(load_experiments())
    with pytest.raises(ConfigError, match="no experiment 'exp99'; did you mean 'exp09e'"):
        names("exp99")
    with pytest.raises(
        ConfigError, match=r"trm_maze: does not run at --scale tiny --data generated \(expected --scale full"
    ):
        names("trm_maze", setting=Setting("tiny", "generated"))


@pytest.mark.parametrize(
    ("scale", "data", "message"),
    [
        ("lptop", None, "--scale: one of full, laptop, tiny, own, got 'lptop'; did you mean 'laptop'?"),
        ("full", "mine", "--data: one of published, generated-extreme, generated, got 'mine'"),
        (
            "tiny",
            "published",
            "6x6 puzzles are neither published nor generated as hard as those; --data generated",
        ),
    ],
)
def test_settings_that_are_none(scale: str, data: str | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_setting(scale, data)


def test_settings_that_are_named_in_part() -> None:
    assert parse_setting(None, None) is None
    assert parse_setting("tiny", None) == Setting("tiny", "generated")
    assert parse_setting(None, "generated") == Setting("full", "generated")


def test_cost_is_counted_as_the_published_figures_are() -> None:
    def cost(name: str, spec: InputSpec) -> tuple[float, float]:
        config = find_experiment(name).make()
        found = cost_of(config, spec)
        assert (
            found.training_flops == found.example_flops * config.total_steps * config.data.global_batch_size
        )
        return found.example_flops / 1e9, found.evaluation_flops / 16e9

    sudoku = InputSpec(sequence_length=81, vocabulary_size=11, num_identifiers=1)
    assert cost("trm_sudoku_mlp", sudoku) == pytest.approx((42.7, 25.6), abs=0.05)
    maze = InputSpec(sequence_length=900, vocabulary_size=6, num_identifiers=1)
    assert cost("trm_maze", maze) == pytest.approx((398, 239), rel=0.01)


def test_describe_gives_the_fields_of_the_guide(capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = output(capsys, "describe", "quickstart")
    for words in ("Judge by:  `trm-eval run`", "Varies:    nothing", "sudoku-2x3-generated-500-aug-1000"):
        assert words in text
    _, as_json, _ = output(capsys, "describe", "quickstart", "--json")
    facts = json.loads(as_json)
    assert facts["guide"]["cost"] == "about 3 minutes on 2 CPU cores"
    assert facts["build"] == "trm-data build sudoku-2x3-generated-500-aug-1000"
    assert facts["config"]["total_steps"] == 1500


@pytest.mark.integration
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
        "examples": None,
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
    assert (every.groups, every.identifiers, every.input_spec.num_identifiers) == (None, "published", 876_407)
    assert (some.groups, some.identifiers, some.input_spec.num_identifiers) == (60, "at most", 60 * 1001 + 1)
    assert (some.input_spec.sequence_length, some.input_spec.vocabulary_size) == (900, 12)
    assert plan_dataset("nobody-knows-this") is None


def test_what_is_planned_is_what_is_built(tmp_path: Path) -> None:
    """A build of a named specification has the planned shapes."""
    from trm_data.building.flow import build_dataset
    from trm_train.runs.record import input_spec

    named = named_dataset(TINY)
    manifest = build_dataset(named.request(), resolve_root(tmp_path)).manifest
    planned = plan_dataset(named.name)
    assert planned is not None
    assert planned.input_spec == input_spec(manifest)
    assert planned.groups == manifest.splits["train"].num_groups


@pytest.mark.integration
def test_a_missing_dataset_is_built_first_and_its_run_extended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ("--data.dataset", TINY, "--data.global-batch-size", "4", "--model.hidden-size", "8")
    small += ("--model.num-heads", "2", "--model.num-layers", "1", "--optim.lr-warmup-steps", "1")
    small += ("--total-steps", "2", "--tracking", "none", "--json", "--root", str(tmp_path))
    code, _, err = output(capsys, "run", "quickstart", *small)
    assert code == 2
    assert f"trm-data build {TINY}), or the same command with --build" in err
    code, out, err = output(capsys, "run", "quickstart", *small, "--build")
    assert code == 0, err
    assert json.loads(out)["step"] == 2  # output of the build is not in the JSON
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
    assert "no kind or named dataset 'nothing-such'" in err


TINY = "sudoku-2x2-generated-10-aug-100"


def on(name: str, dataset: str) -> str:
    """Return what an experiment reports about itself on another dataset."""
    item = find_experiment(name)
    plain = item.make()
    return item.says(dataclasses.replace(plain, data=dataclasses.replace(plain.data, dataset=dataset)))


@pytest.mark.parametrize("dataset", ["my_puzzles", "mine", "a-b-c-d"])
def test_an_experiment_on_a_dataset_of_ones_own_says_no_numbers_of_its_own(dataset: str) -> None:
    for name in ("exp04a_100", "exp04b_0010", "data_maze_100", "data_arc1_60"):
        assert on(name, dataset) == dataset
    assert on("exp01a", dataset) == find_experiment("exp01a").varies


def test_an_experiment_outside_the_study_has_a_setting_of_its_own(
    small_layout: Layout,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    study = tmp_path / "own_study.py"
    study.write_text(f"""
import dataclasses
from trm_train.experiments.guide import Guide
from trm_train.experiments.quickstart import quickstart
from trm_train.experiments.registry import experiment

@experiment(Guide(**{FIELDS!r}))
def of_my_own():
    return dataclasses.replace(quickstart(), total_steps=7_000)
""")
    monkeypatch.setattr(registry, "_EXPERIMENTS", registry.load_experiments())
    monkeypatch.setenv("TRM_EXPERIMENTS", str(study))
    try:
        _, listed, _ = output(capsys, "list", "of_my_own", "--json")
        assert [(item["scale"], item["data"]) for item in json.loads(listed)] == [("own", "")]
        assert [item.name for item in select_experiments(["of_my_own"], OWN)] == ["of_my_own"]
        with pytest.raises(ConfigError, match=r"expected --scale own\)"):
            select_experiments(["of_my_own"], SETTINGS[0])
        item = find_experiment("of_my_own")
        record = make_record(item, item.make(), read_manifest(small_layout, "small"))
        assert (record.scale, record.data) == ("own", "")
        earlier = dataclasses.replace(record, scale="full", data="published")
        assert setting_of(earlier) == setting_of(record) == OWN
    finally:
        sys.modules.pop("own_study", None)
