"""A report of real runs: two widths that learn a little and an alias, trained and tested here."""

from __future__ import annotations

import csv
import dataclasses
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pytest

import trm_eval
from tests.trm_train.test_loop import TINY
from trm_data.storage.root import Layout, resolve_root
from trm_data.sync import sync_datasets
from trm_eval.cli import main
from trm_eval.errors import EvalError
from trm_eval.evaluate import evaluate_run
from trm_eval.identity import EvalRequest
from trm_eval.report.page import Bullets, Page, Table, findings, study_page
from trm_eval.report.study import Group, gather
from trm_eval.report.write import write_report
from trm_eval.tables.query import query_results
from trm_train.batch.summary import wilson
from trm_train.config.run import RunConfig
from trm_train.console import RunConsole
from trm_train.experiments import registry
from trm_train.experiments.guide import Guide, Quantity
from trm_train.experiments.registry import Experiment, find_run_of, select_experiments
from trm_train.experiments.setting import Setting
from trm_train.run.loop import train

SETTING = Setting("tiny", "generated")
GUIDE = Guide(
    question="Does width help | here?",
    varies="width <D>",
    fixed="all else",
    expected="more",
    judge_by="tests",
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
    """The experiments of this file, for as long as its tests run."""
    registry.load_experiments()
    before = dict(registry._EXPERIMENTS)
    for item in EXPERIMENTS:
        registry.add_experiment(item)
    yield
    registry._EXPERIMENTS.clear()
    registry._EXPERIMENTS.update(before)


@pytest.fixture(scope="module")
def layout(registered: object, small_layout: Layout, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    layout = resolve_root(tmp_path_factory.mktemp("study"))
    sync_datasets(small_layout, layout, ["small"])
    for name in ("baseline_of_test", "wide"):
        item = find_run_of(name, SETTING)
        with RunConsole(item.make(), quiet=True) as console:
            done = train(item, item.make(), layout, console, tracking="none")
        evaluate_run(layout, done.folder, EvalRequest())
    other = dataclasses.replace(TINY, total_steps=6, optim=dataclasses.replace(TINY.optim, lr=1e-2))
    item = find_run_of("wide", SETTING)
    with RunConsole(other, quiet=True) as console:
        done = train(item, other, layout, console, tracking="none")
    evaluate_run(layout, done.folder, EvalRequest())
    return layout


@pytest.fixture(scope="module")
def groups(layout: Layout) -> list[Group]:
    return gather(layout, select_experiments(["measured", "named"], SETTING), SETTING)


def test_experiments_have_their_own_runs_alone(layout: Layout) -> None:
    """A run of other options is in `runs` under the same experiment, but none of the study."""
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


def test_intervals_in_sql_are_those_of_the_summary(layout: Layout) -> None:
    for right, count in ((0, 12), (5, 12), (12, 12), (871, 1000), (1, 422_786)):
        ((low, high),) = query_results(
            layout, "SELECT wilson_low(?, ?), wilson_high(?, ?)", [right, count, right, count]
        ).rows
        assert (low, high) == pytest.approx(wilson(right, count), abs=1e-9)
    assert query_results(layout, "SELECT wilson_low(0, 0), wilson_high(NULL, 3)").rows == [(None, None)]


def test_every_number_is_that_of_the_tables(layout: Layout, groups: list[Group]) -> None:
    measured, named = groups
    assert measured.missing == ["untested"]
    assert [member.varies for member in measured.members] == ["D 16", "D 24"]
    assert [member.run for member in named.members] == [measured.members[1].run]
    assert set(measured.curves) == {member.run for member in measured.members}
    assert all(steps == [6, 12] for steps, _ in measured.curves.values())
    assert measured.ends is not None
    a, b = (
        trm_eval.read_predictions(member.run, layout).collect().sort("row")["exact"]
        for member in measured.members
    )
    paired = measured.ends.paired
    assert (paired.count, paired.only_a, paired.only_b) == (12, (a & ~b).sum(), (b & ~a).sum())
    assert len(findings(measured)) >= 2


def test_a_report_is_a_page_and_a_file_for_each_table_and_figure(
    layout: Layout, groups: list[Group], tmp_path: Path
) -> None:
    page = study_page(groups, SETTING, "trm-eval report", "jax 1")
    paths = write_report(page, tmp_path / "report")
    names = {path.name for path in paths}
    assert names >= {"index.html", "report.md", "overview.csv", "measured.csv", "measured.svg", "named.csv"}
    text = (tmp_path / "report" / "report.md").read_text()
    assert all((tmp_path / "report" / link).is_file() for link in re.findall(r"\]\(([^)]+)\)", text))
    assert "Not tested yet: untested." in text
    assert r"Does width help \| here?" in text
    rows = list(csv.DictReader((tmp_path / "report" / "measured.csv").read_text().splitlines()))
    assert [row["varies"] for row in rows] == ["D 16", "D 24"]
    ElementTree.parse(tmp_path / "report" / "measured.svg")
    _is_whole((tmp_path / "report" / "index.html").read_text())
    first = {path: path.read_bytes() for path in paths}
    assert {path: path.read_bytes() for path in write_report(page, tmp_path / "report")} == first


def _is_whole(page: str) -> None:
    """Every tag closed, every id once, nothing from elsewhere, nothing of a guide taken for markup."""
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


def test_one_markdown_file_has_the_rest_beside_it(
    layout: Layout, groups: list[Group], tmp_path: Path
) -> None:
    paths = write_report(study_page(groups, SETTING, "x", "y"), tmp_path / "mini.md")
    assert paths[0] == tmp_path / "mini.md"
    links = re.findall(r"\]\(([^)]+)\)", paths[0].read_text())
    assert links
    assert all((tmp_path / link).is_file() for link in links)
    assert not (tmp_path / "mini" / "index.html").exists()
    with pytest.raises(EvalError, match="is a file"):
        write_report(Page("x", [Bullets([]), Table("t.csv", [], [])]), tmp_path / "mini" / "named.csv")


def test_the_command(layout: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["report", "measured", "--scale", "tiny", "--root", layout.place, "--out", str(tmp_path / "r")]
    with pytest.raises(SystemExit, match="0"):
        main(command)
    assert "2 runs in 1 groups" in capsys.readouterr().out
    assert "`trm-eval report measured --scale tiny --out " in (tmp_path / "r" / "report.md").read_text()
    for arguments, message in (
        (["untested", "--scale", "tiny"], "none of 1 experiments has been tested at --scale tiny"),
        (["exp1x"], "no experiment 'exp1x'"),
        (["measured", "--scale", "laptop"], "does not run at --scale laptop"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["report", *arguments, "--root", layout.place, "--out", str(tmp_path / "none")])
        assert ended.value.code == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
