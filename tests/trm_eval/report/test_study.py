"""A report of real runs: two widths that learn a little, and an alias.

Reports of runs outside the study: chosen by name, by glob, or by experiment.
"""

from __future__ import annotations

import csv
import dataclasses
import itertools
import json
import re
import shutil
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pytest

import trm_eval
from tests.conftest import error_of, run_here
from tests.recorded import recorded_root
from tests.support.roots import copy_root
from tests.trm_eval.conftest import Evaluated
from tests.trm_train.test_loop import TINY
from trm_data.storage.root import Layout, resolve_root
from trm_eval.cli import main
from trm_eval.errors import EvalError
from trm_eval.evaluation.flow import evaluate_run
from trm_eval.identity import EvalRequest
from trm_eval.report import study
from trm_eval.report.ask import Asked
from trm_eval.report.blocks import Bullets, Heading, Page, Query, Table, Text, write_report
from trm_eval.report.figures import accuracy_figure
from trm_eval.report.group import Group, Member
from trm_eval.report.page import findings, study_page
from trm_eval.report.study import gather, gather_runs, runs_named
from trm_eval.report.verdict import ends_of
from trm_eval.statistics import Paired
from trm_train.config.run import RunConfig
from trm_train.console import RunConsole
from trm_train.experiments import registry
from trm_train.experiments.claim import Better
from trm_train.experiments.guide import Guide, Quantity
from trm_train.experiments.registry import Experiment, find_run_of, select_experiments
from trm_train.experiments.setting import Setting
from trm_train.training.loop import train

SETTING = Setting("tiny", "generated")
GUIDE = Guide(
    question="Does width help | here?",
    varies="width <D>",
    fixed="all else",
    expected="more",
    judge_by="tests",
    claims=(Better("wide", "baseline_of_test", clearly=True),),
)
QUANTITY = Quantity("width", "features", lambda config: config.model.hidden_size)


def width(features: int) -> RunConfig:
    return dataclasses.replace(TINY, model=dataclasses.replace(TINY.model, hidden_size=features))


EXPERIMENTS = [
    Experiment(
        "baseline_of_test", "measured", lambda _: width(16), GUIDE, {}, (SETTING,), lambda _: "D 16", QUANTITY
    ),
    Experiment("wide", "measured", lambda _: width(24), GUIDE, {}, (SETTING,), lambda _: "D 24", QUANTITY),
    Experiment(
        "untested", "measured", lambda _: width(32), GUIDE, {}, (SETTING,), lambda _: "D 32", QUANTITY
    ),
    Experiment(
        "again", "named", lambda _: width(24), GUIDE, {"tiny": "wide"}, (SETTING,), lambda _: "as wide"
    ),
]


@pytest.fixture(scope="module", autouse=True)
def registered() -> object:
    """The experiments of this file, registered while its tests run."""
    registry.load_experiments()
    before = dict(registry._EXPERIMENTS)
    register()
    yield
    registry._EXPERIMENTS.clear()
    registry._EXPERIMENTS.update(before)


OTHER = dataclasses.replace(TINY, total_steps=6, optim=dataclasses.replace(TINY.optim, lr=1e-2))
"""A run with other options than its experiment in the study."""


def register() -> None:
    """Add the experiments of this file to the registry."""
    registry.load_experiments()
    for item in EXPERIMENTS:
        registry.add_experiment(item)


def train_study(layout: Layout) -> None:
    """Train and evaluate both widths, and a run with other options; `tests/recorded.py` records the root."""
    register()
    wanted = [(name, find_run_of(name, SETTING).make()) for name in ("baseline_of_test", "wide")]
    for name, config in [*wanted, ("wide", OTHER)]:
        with RunConsole(config, quiet=True) as console:
            done = train(find_run_of(name, SETTING), config, layout, console, tracking="none")
        evaluate_run(layout, done.folder, EvalRequest())


@pytest.fixture(scope="module")
def layout(registered: object, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return recorded_root(tmp_path_factory.mktemp("study"), "study")


@pytest.fixture(scope="module")
def groups(layout: Layout) -> list[Group]:
    found, problems = gather(layout, select_experiments(["measured", "named"], SETTING), SETTING)
    assert not problems
    return found


def test_experiments_have_their_own_runs_alone(layout: Layout) -> None:
    """A run with other options is in `runs` under the same experiment, but not in the study."""
    found = trm_eval.sql("SELECT experiment, run, count FROM study WHERE run IS NOT NULL ORDER BY 1", layout)
    assert found["experiment"].to_list() == ["again", "baseline_of_test", "wide"]
    assert found["run"][0] == found["run"][2]
    assert len(trm_eval.sql("SELECT run FROM runs WHERE experiment = 'wide'", layout)) == 2
    named = trm_eval.sql("SELECT * FROM experiments WHERE experiment_group IN ('measured', 'named')", layout)
    assert sorted(zip(named["experiment"], named["alias_of"], named["value"], strict=True)) == [
        ("again", "wide", None),
        ("baseline_of_test", None, 16.0),
        ("untested", None, 32.0),
        ("wide", None, 24.0),
    ]


def test_every_number_is_that_of_the_tables(layout: Layout, groups: list[Group]) -> None:
    measured, named = groups
    assert measured.missing == ["untested"]
    assert [member.varies for member in measured.members] == ["D 16", "D 24"]
    assert [member.run for member in named.members] == [measured.members[1].run]
    assert set(measured.curves) == {member.run for member in measured.members}
    assert all([row["step"] for row in rows] == [6, 12] for rows in measured.curves.values())
    a, b = (
        trm_eval.sql(f"FROM predictions WHERE run = '{member.run}' ORDER BY row", layout)["exact"]
        for member in measured.members
    )
    paired = measured.paired[measured.members[0].run, measured.members[1].run]
    assert (paired.count, paired.only_a, paired.only_b) == (12, (a & ~b).sum(), (b & ~a).sum())
    assert len(findings(measured)) >= 2
    for member in measured.members:
        answers = trm_eval.sql(f"FROM predictions WHERE run = '{member.run}'", layout)
        halts = answers["halt_step"]
        assert member.halted_share == pytest.approx(halts.is_not_null().mean())
        assert member.mean_halting_steps == pytest.approx(halts.fill_null(member.supervision_steps).mean())
    assert measured.members[0].training_flops < measured.members[1].training_flops


def test_a_run_that_solves_nothing_is_named(layout: Layout) -> None:
    failed = dataclasses.replace(
        a_member("failed", 16.0, 0), exact_count=0, exact_accuracy=0.0, halted_share=0.0
    )
    group = Group("g", GUIDE, "", False, [failed, a_member("other", 24.0, 0)], [], {}, [])
    assert any("D 16 solves no puzzle of the test: training failed" in line for line in findings(group))
    page = study_page([group], SETTING, "x")
    (table,) = (block for block in page.blocks if isinstance(block, Table) and block.file == "g.csv")
    rows = table.shown
    assert [row["halts %"] for row in rows] == ["never", "20.0"]
    assert [row["halting steps"] for row in rows] == ["3.40 of 4"] * 2
    assert [row["FLOP"] for row in rows] == ["1.00e+09"] * 2
    assert dataclasses.replace(failed, planned_steps=100).steps == "12 of 100"


def test_a_report_is_a_page_and_a_file_for_each_table_and_figure(
    layout: Layout, groups: list[Group], tmp_path: Path
) -> None:
    page = study_page(groups, SETTING, "trm-eval report")
    paths = write_report(page, tmp_path / "report")
    names = {path.name for path in paths}
    assert names >= {"index.html", "report.md", "overview.csv", "measured.csv", "measured.svg", "named.csv"}
    assert names >= {"measured-curves.csv", "measured-depth.svg", "measured-depth.csv"}
    text = (tmp_path / "report" / "report.md").read_text()
    assert all((tmp_path / "report" / link).is_file() for link in re.findall(r"\]\(([^)]+)\)", text))
    assert "Not tested yet: untested." in text
    assert r"Does width help \| here?" in text
    rows = list(csv.DictReader((tmp_path / "report" / "measured.csv").read_text().splitlines()))
    assert [row["varies"] for row in rows] == ["D 16", "D 24"]
    ElementTree.parse(tmp_path / "report" / "measured.svg")
    ElementTree.parse(tmp_path / "report" / "measured-depth.svg")
    depths = list(csv.DictReader((tmp_path / "report" / "measured-depth.csv").read_text().splitlines()))
    last = {row["run"]: float(row["exact_accuracy"]) for row in depths}  # the last step of each
    assert last == {row["run"]: float(row["exact_accuracy"]) for row in rows}
    assert {row["depth"] for row in depths} == {"1", "2", "3"}
    page_text = (tmp_path / "report" / "index.html").read_text()
    _is_whole(page_text)
    assert all((tmp_path / "report" / link).is_file() for link in re.findall(r'href="([^"#]+)"', page_text))
    assert not re.search(r'<(img|script|link)[^>]+(src|href)="(?!data:)', page_text)
    first = {path: path.read_bytes() for path in paths}
    assert {path: path.read_bytes() for path in write_report(page, tmp_path / "report")} == first


def _is_whole(page: str) -> None:
    """Check that tags are closed, ids unique, nothing is loaded from elsewhere, and guide text is escaped."""
    opened: list[str] = []
    ids: list[str] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            ids.extend(value for name, value in attrs if name == "id" and value)
            assert not [value for name, value in attrs if name in ("src", "srcset")]
            if tag not in ("meta", "br"):
                opened.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert opened.pop() == tag

    parser = Parser()
    parser.feed(page)
    assert not opened
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', page)) <= set(ids)
    assert "width &lt;D&gt;" in page


def test_a_report_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    for name in ("taken", "page.md", "page.html"):
        with pytest.raises(EvalError, match=f"{name}: expected a folder"):
            write_report(Page("x", [Bullets([])]), tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_what_a_page_quotes_does_not_run(tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)> [a](javascript:alert(1))"
    table = Table("t.csv", [{"a|b": f"| {evil}"}], [{"a": "=cmd()", "b": -1.5}, {"a": "@x", "b": 2}])
    query = Query(evil, "SELECT '```'\n</details>")
    page = Page(evil, [Heading(evil), Text(f"{evil} `<code>`"), Bullets([evil]), table, query])
    write_report(page, tmp_path)
    text = (tmp_path / "report.md").read_text()
    code = text.index("````sql")
    assert "<img" not in text
    assert not re.search(r"(?<!\\)\[a\]\(", text)
    assert "</details>" not in text[:code]
    assert text.rstrip().endswith("````")
    assert "`<code>`" in text
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert [len(re.findall(r"(?<!\\)\|", line)) for line in rows] == [2, 2, 2]
    assert (tmp_path / "t.csv").read_text().splitlines() == ["a,b", "'=cmd(),-1.5", "'@x,2"]


@pytest.mark.integration
def test_the_command(layout: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["report", "measured", "--scale", "tiny", "--root", layout.place, "--out", str(tmp_path / "r")]
    with pytest.raises(SystemExit, match="0"):
        main(command)
    assert "2 runs in 1 group," in capsys.readouterr().out
    names = {path.name for path in (tmp_path / "r").iterdir()}
    for figure in ("pareto-parameters", "pareto-training-flops"):
        assert {f"{figure}.svg", f"{figure}.csv"} <= names
    assert {"datasets.csv", "provenance.csv"} <= names
    page = (tmp_path / "r" / "report.md").read_text()
    assert "- Verdict: cannot be told: of 1 claim 0 hold, 1 cannot be told from these runs. " in page
    assert "each experiment has one seed: no interval over seeds can be given." in page
    _is_whole((tmp_path / "r" / "index.html").read_text())
    assert "`trm-eval report measured --scale tiny --out " in (tmp_path / "r" / "report.md").read_text()
    for arguments, value in (
        (["untested", "--scale", "tiny"], "--scale tiny"),
        (["exp1x"], "'exp1x'"),
        (["measured", "--scale", "laptop"], "--scale laptop"),
    ):
        out = ("--root", layout.place, "--out", str(tmp_path / "none"))
        code, line = error_of(main, "report", *arguments, *out)
        assert code == 2
        assert value in line
    assert not (tmp_path / "none").exists()


@pytest.mark.integration
def test_what_is_missing_is_said_and_compared_with_nothing(
    layout: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = resolve_root(tmp_path / "damaged")
    copy_root(layout, damaged, "results")
    wide = next(
        member for member in gather(layout, select_experiments(["wide"], SETTING), SETTING)[0][0].members
    )
    (part,) = damaged.results.names(f"predictions/*/run={wide.run}/{wide.evaluation}*")
    damaged.results.delete(part)
    (group,), problems = gather(damaged, select_experiments(["measured"], SETTING), SETTING)
    ends = ends_of(group)
    assert ends is not None
    assert "predictions are missing" in ends[2]
    assert len(problems) == 1
    command = ["report", "measured", "--scale", "tiny", "--root", damaged.place, "--out", str(tmp_path / "r")]
    for options, code in (([], 1), (["--skip-damaged"], 0)):
        with pytest.raises(SystemExit) as ended:
            main([*command, *options])
        assert ended.value.code == code
        assert "left out: " in capsys.readouterr().err
    written = (tmp_path / "r" / "report.md").read_text()
    (left_out,) = (line for line in written.splitlines() if "Left out: " in line)
    assert damaged.place not in left_out


@pytest.mark.integration
def test_an_extended_run_keeps_its_place_in_the_study(layout: Layout, tmp_path: Path) -> None:
    extended = resolve_root(tmp_path)
    shutil.copytree(layout.place, tmp_path, dirs_exist_ok=True, symlinks=True)
    item = find_run_of("baseline_of_test", SETTING)
    with RunConsole(item.make(), quiet=True) as console:
        train(item, item.make(), extended, console, tracking="none", extend=14)
    items = select_experiments(["baseline_of_test"], SETTING)
    (before,), (member,) = (gather(root, items, SETTING)[0][0].members for root in (layout, extended))
    assert (member.total_steps, member.steps) == (12, "12")
    assert member.training_flops == pytest.approx(before.training_flops)


@pytest.mark.integration
def test_a_run_and_its_variant_are_reported_together(layout: Layout, tmp_path: Path) -> None:
    (own,) = gather(layout, select_experiments(["wide"], SETTING), SETTING)[0][0].members
    (variant,) = set(runs_named(layout, ["wide"])) - {own.run}
    with pytest.raises(SystemExit, match="0"):
        main(["report", own.run, variant, "--root", layout.place, "--out", str(tmp_path)])
    (group,), _ = gather_runs(layout, [own.run, variant])
    assert group.labels().keys() == {own.run.removesuffix("-s0"), variant.removesuffix("-s0")}
    varies = {member.run: member.varies for member in group.members}[variant]
    assert varies == "model.hidden_size=16, optim.lr=0.01, total_steps=6"
    assert {member.mean_halting_steps for member in group.members if member.run == own.run} == {
        own.mean_halting_steps
    }


def a_member(experiment: str, value: float, seed: int, *, alias_of: str | None = None) -> Member:
    run, evaluation = f"{alias_of or experiment}-s{seed}", f"e{experiment}{seed}"
    return Member(
        experiment, alias_of, f"D {value:g}", value, run, seed, evaluation, "d",
        100, 50, 0.5, 0.4, 0.6, 0.9, 0.5, 0.2, 3.4, 4, 12, 1e9, 1.0,
    )  # fmt: skip


def test_seeds_are_compared_with_their_like(monkeypatch: pytest.MonkeyPatch, layout: Layout) -> None:
    """Two seeds of a baseline and of two others: four comparisons with it, one of which is also of the ends."""
    asked: list[list[str]] = []

    def flips(_: Layout, says: str, sql: str, values: list[list[str]], problems: list[str]) -> Asked:
        asked.append(values[0])
        pairs = [dict(zip("ab", key.split(" "), strict=True)) for key in values[0]]
        return Asked(Query(says, sql), [{**pair, "puzzles": 100, "only_a": 3, "only_b": 9} for pair in pairs])

    monkeypatch.setattr(study, "ask", flips)
    names = [("small", 16.0, "baseline"), ("middle", 24.0, None), ("large", 32.0, None)]
    members = {
        name: [a_member(name, value, seed, alias_of=alias) for seed in (0, 1)] for name, value, alias in names
    }
    items = [Experiment(name, "g", lambda _: TINY, GUIDE, quantity=QUANTITY) for name in members]
    group = study._group(layout, "g", items, members, {}, {}, [])
    assert group is not None
    pairs = [(compared.a.run, compared.b.run) for compared in group.against_baseline]
    assert pairs == [
        (f"baseline-s{seed}", f"{name}-s{seed}") for name in ("middle", "large") for seed in (0, 1)
    ]
    assert len(asked[0]) == 4, "the ends are a comparison with the baseline"
    ends = ends_of(group)
    assert ends is not None
    assert [[member.run for member in of] for of in ends[:2]] == [
        [f"{name}-s{seed}" for seed in (0, 1)] for name in ("baseline", "large")
    ]
    raw = Paired(100, 3, 9).p_value
    assert {compared.p_value for compared in group.against_baseline} == {min(4 * raw, 1.0)}
    lines = findings(group)
    assert len(lines) == len(set(lines))
    only = study._group(layout, "g", items[:1], {"small": members["small"]}, {}, {}, [])
    assert only is not None
    assert (ends_of(only), only.against_baseline) == (None, [])


def test_two_varied_quantities_are_curves_without_a_common_fit(layout: Layout) -> None:
    members = {
        f"s_{number}": [
            dataclasses.replace(a_member(f"s_{number}", value, seed), series=series) for seed in (0, 1, 2)
        ]
        for number, (series, value) in enumerate(itertools.product(("10 each", "9 each"), (100.0, 300.0)))
    }
    items = [Experiment(name, "s", lambda _: TINY, GUIDE, quantity=QUANTITY) for name in members]
    group = study._group(layout, "s", items, members, {}, {}, [])
    assert group is not None
    assert list(group.series) == ["10 each", "9 each"]  # in the order of the experiments
    assert (group.trend, ends_of(group)) == (None, None)
    drawn = accuracy_figure(group).decode()
    assert all(f">{series}<" in drawn for series in group.series)
    alone = dataclasses.replace(group, members=[m for m in group.members if m.series == "9 each"])
    assert alone.series.keys() == {"9 each"}


@pytest.mark.integration
def test_a_run_is_reported_by_its_name_its_experiment_and_a_glob(
    evaluated: Evaluated, tmp_path: Path
) -> None:
    """`tiny` is not a registered experiment."""
    run = evaluated.record.run
    for pattern in (run, "tiny", "tin*"):
        assert runs_named(evaluated.layout, [pattern]) == [run]
    out, root = tmp_path / "r", evaluated.layout.place
    done = run_here(main, "report", "tin*", "--out", str(out), "--json", "--root", root)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["runs"] == [run]
    assert "exact_accuracy" in (out / "runs.csv").read_text(), "the table of the group `runs`"
    text = (out / "report.md").read_text()
    assert text.startswith("# Runs\n")
    assert run in text
    assert f"{100 * evaluated.row['exact_count'] / evaluated.row['count']:.1f}" in text


def test_a_pattern_that_fits_nothing_is_named(evaluated: Evaluated) -> None:
    code, line = error_of(main, "report", evaluated.record.run, "tinny", "--root", evaluated.layout.place)
    assert (code, "no run or experiment 'tinny'" in line) == (2, True), line


def test_a_run_without_a_whole_test_is_said_with_the_command(evaluated: Evaluated) -> None:
    with pytest.raises(EvalError, match=r"no run has a test of all rows .* trm-eval run other-0-s0"):
        gather_runs(evaluated.layout, ["other-0-s0"])
    (group,), _ = gather_runs(evaluated.layout, [evaluated.record.run, "other-0-s0"])
    assert group.missing == ["other-0-s0 (no test of all rows: trm-eval run other-0-s0)"]
    assert [member.evaluation for member in group.members] == [evaluated.row["evaluation"]]
