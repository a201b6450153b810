"""Every page, executed as Streamlit does: its content, and the effect of clicks."""

from __future__ import annotations

import re
from typing import Any

import pytest
import streamlit as st
from streamlit import config
from streamlit.testing.v1 import AppTest

from tests.trm_eval.conftest import Evaluated
from tests.trm_eval.serve.conftest import HOSTILE, app_script, live_run, set_live
from trm_data.storage.root import Layout, resolve_root
from trm_eval.serve.server import SETTINGS
from trm_train.runs.record import run_name

PAGES = ("runs", "curves", "evaluations", "puzzles")
SCRIPT = """
import streamlit as st
from trm_eval.serve import curves, evaluations, puzzles, runs
from trm_eval.serve.parts import errors_shown

for module in (runs, evaluations):
    module.link = lambda page, label: st.caption(f"to {{page}}")  # there are no other pages here
with errors_shown():
    {name}.show()
"""


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    st.cache_resource.clear()


def page(name: str, root: Layout, monkeypatch: pytest.MonkeyPatch, **address: Any) -> AppTest:
    """Return a page of a root, after loading."""
    monkeypatch.setenv("TRM_ROOT", str(root.machine))
    app = AppTest.from_string(SCRIPT.format(name=name), default_timeout=120)
    for key, value in address.items():
        app.query_params[key] = value
    app.run()
    assert not app.exception, app.exception
    return app


def shown_text(app: AppTest) -> str:
    """Return all words of a page, including names of tables."""
    kinds = ("markdown", "caption", "info", "warning", "error", "code")
    words = [each.value for kind in kinds for each in app.get(kind)]
    return "\n".join(map(str, words))


def test_the_whole_of_it_starts_with_the_runs(root: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRM_ROOT", str(root.machine))
    magic = "runner.magicEnabled"
    before = config.get_option(magic)
    config.set_option(magic, SETTINGS.get(magic, before))
    try:
        app = AppTest.from_file(str(app_script()), default_timeout=120).run()
    finally:
        config.set_option(magic, before)
    assert not app.exception
    assert [each.value for each in app.subheader] == ["Runs"]
    assert shown_text(app).startswith("2 runs."), "no docstring of the script is shown"
    assert len(app.dataframe[0].value) == 2


def test_runs_can_be_filtered_and_are_seen_to_go_on(root: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    set_live(root, step=6)
    app = page("runs", root, monkeypatch)
    table = app.dataframe[0].value
    assert table["state"].tolist() == ["running", "done"]
    assert table["step"].tolist() == [6, 12]
    assert "stored.runs" in app.code[0].value
    set_live(root, step=9)
    st.cache_resource.clear()
    app.run()
    assert app.dataframe[0].value["step"].tolist() == [9, 12]
    set_live(root, step=6)
    app.text_input[0].set_value("-s7").run()
    assert app.dataframe[0].value["run"].tolist() == [run_name("tiny", live_run())]
    app.text_input[0].set_value("nothing").run()
    assert "No such runs" in app.info[0].value


def test_curves_of_the_runs_that_the_address_names(
    root: Layout, evaluated: Evaluated, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = page("curves", root, monkeypatch, run=[evaluated.record.run])
    assert app.multiselect[0].value == [evaluated.record.run]
    assert "**Loss in training**" in shown_text(app)
    assert "**Exact accuracy in validation**" in shown_text(app)
    app.multiselect[1].set_value([]).run()
    assert "Choose runs and curves." in app.info[0].value


def test_evaluations_have_a_table_figures_and_their_sql(
    root: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = page("evaluations", root, monkeypatch)
    (row,) = app.dataframe[0].value.to_dict("records")
    assert (row["exact_accuracy"], row["count"]) == (0.0, 12)
    assert row["exact_high"] == pytest.approx(24.25, abs=0.01)
    titles = [each.value for each in app.markdown if each.value.startswith("**")]
    assert len(titles) == len(app.code) - 1 >= 2, "the table and every figure have their SQL"


def test_a_puzzle_has_the_command_that_draws_its_cycles(
    root: Layout, evaluated: Evaluated, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = page("puzzles", root, monkeypatch, row="5")
    assert f"trm-eval predict {evaluated.record.run} --split test --row 5 --trace" in shown_text(app)


@pytest.mark.parametrize("name", PAGES)
def test_a_name_that_is_html_stays_text(name: str, hostile: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    app = page(name, hostile, monkeypatch)
    for kind in ("markdown", "caption", "info", "warning", "error"):
        for each in app.get(kind):
            assert not re.search(r"(?<!\\)<img|(?<!\\)\$", each.value)
    assert not [each for each in app.get("html") if "img" in each.proto.body]


@pytest.mark.parametrize("name", PAGES)
def test_an_empty_root_has_pages_too(
    name: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    page(name, resolve_root(tmp_path_factory.mktemp("empty")), monkeypatch)


def test_a_run_that_cannot_be_read_is_named_as_text(
    hostile: Layout, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = resolve_root(tmp_path_factory.mktemp("damaged"))
    folder = layout.machine / "runs" / "testing" / "tiny" / HOSTILE
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{")
    app = page("runs", layout, monkeypatch)
    assert "left out" in app.warning[0].value
    assert r"\<img src\=x onerror" in app.warning[0].value
    assert not re.search(r"(?<!\\)[<*$]", app.warning[0].value)
