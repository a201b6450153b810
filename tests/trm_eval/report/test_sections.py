"""Further sections of a report: each figure appears if its data exist, with the SQL that gave them."""

from __future__ import annotations

import csv
import dataclasses
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.support.roots import copy_root
from tests.trm_eval.conftest import Evaluated
from trm_data.storage.root import Layout, resolve_root
from trm_eval.evaluation.flow import evaluate_run
from trm_eval.identity import EvalRequest, Sampling
from trm_eval.report.blocks import Drawings, Picture, Text, to_csv
from trm_eval.report.breakdown import (
    rating_pictures,
    scaling_curves,
    scaling_pictures,
)
from trm_eval.report.group import Group, Member
from trm_eval.report.page import DIFFERENT_TESTS, findings
from trm_eval.report.sections import provenance_blocks, puzzle_blocks
from trm_eval.tables.query import query_results
from trm_train.experiments.guide import Guide
from trm_train.runs.record import find_run

GUIDE = Guide(question="?", varies="a", fixed="b", expected="c", judge_by="d")


@pytest.fixture
def group(evaluated: Evaluated) -> Group:
    """The single evaluated run as a group."""
    row = evaluated.row
    member = Member(
        "tiny", None, "", None, evaluated.record.run, 0, row["evaluation"], row["split_digest"], row["count"],
        row["exact_count"], 0.0, 0.0, 0.3, 0.4, 0.5, None, None, row["supervision_steps"], row["step"], None, 1.0,
    )  # fmt: skip
    return Group("tiny", GUIDE, "", False, [member], [], {}, [])


def as_asked(layout: Layout, picture: Picture) -> None:
    """Check that a figure's numbers are those of its SQL, and that its files are complete."""
    (query,) = picture.queries
    found = query_results(layout, query.sql)
    assert [dict(zip(found.columns, row, strict=True)) for row in found.rows] == picture.data
    assert len(list(csv.DictReader(to_csv(picture.data).decode().splitlines()))) == len(picture.data) > 0
    ElementTree.fromstring(picture.drawn)


def test_ratings_are_drawn_where_they_differ(evaluated: Evaluated, group: Group) -> None:
    sql = "SELECT count(DISTINCT CASE WHEN rating > 0 THEN 1 ELSE 0 END) FROM predicted_puzzles"
    ((kinds,),) = query_results(evaluated.layout, sql).rows
    pictures = rating_pictures(evaluated.layout, group, [])
    assert bool(pictures) == (kinds > 1)
    for picture in pictures:
        as_asked(evaluated.layout, picture)
        assert sum(row["puzzles"] for row in picture.data) == 12


@pytest.mark.integration
def test_accuracy_is_drawn_against_network_calls_where_there_is_breadth(
    evaluated: Evaluated, group: Group, tmp_path: Path
) -> None:
    assert scaling_pictures(evaluated.layout, group, []) == []
    shutil.copytree(evaluated.layout.place, tmp_path, dirs_exist_ok=True, symlinks=True)
    layout = resolve_root(tmp_path)
    request = EvalRequest(sampling=Sampling(samples=2, noise=0.5), depths=(1, 2), supervision_steps=2)
    evaluate_run(layout, find_run(layout, evaluated.record.run), request)
    (picture,) = scaling_pictures(layout, group, [])
    as_asked(layout, picture)
    curves = scaling_curves({evaluated.record.run: "tiny"}, picture.data)
    sampled = {name: [row["depth"] for row in rows] for name, rows in curves if "sample" in name}
    assert sampled == {"tiny, 1 sample, halt_logit": [1, 2], "tiny, 2 samples, halt_logit": [1, 2]}, {
        row["precision"] for row in picture.data
    }
    calls = {name: [row["network_calls"] for row in rows] for name, rows in curves if "sample" in name}
    assert calls["tiny, 2 samples, halt_logit"] == [2 * each for each in calls["tiny, 1 sample, halt_logit"]]


def test_puzzles_are_drawn_with_the_command_that_shows_one_step_by_step(
    evaluated: Evaluated, group: Group
) -> None:
    blocks = puzzle_blocks(evaluated.layout, [group])
    drawn = [block for block in blocks if isinstance(block, Drawings)]
    assert [[name for name, _ in block.drawings] for block in drawn] == [["given", "answer", "solution"]] * 2
    assert Text("It solves none.") in blocks
    rows = query_results(evaluated.layout, "SELECT wrong_cells FROM predictions ORDER BY row LIMIT 2").rows
    for block, (wrong,) in zip(drawn, rows, strict=True):
        marked = dict(block.drawings)["answer"].marked
        assert marked is not None
        assert marked.sum() == wrong > 0
        assert f"{wrong} cells wrong" in block.says
    assert isinstance(blocks[-1], Text)
    assert "--split test --row 0 --trace" in blocks[-1].text


def test_where_the_numbers_come_from(evaluated: Evaluated, group: Group, tmp_path: Path) -> None:
    _, datasets, _, runs, *_ = provenance_blocks(evaluated.layout, [group], [])
    (fact,) = datasets.data
    manifest = evaluated.test.manifest
    assert (fact["dataset"], fact["content_digest"]) == ("small", manifest.content_digest)
    assert fact["built_by"] == manifest.spec.options.build_command("small", manifest.spec)
    assert fact["here"] == "the same rows"
    (row,) = runs.data
    assert (row["run"], row["evaluation"]) == (evaluated.record.run, group.members[0].evaluation)
    home = resolve_root(tmp_path)
    copy_root(evaluated.layout, home, "results")
    assert provenance_blocks(home, [group], [])[1].data[0]["here"] == "not there"


def test_no_run_is_the_best_of_those_that_are_tested_on_different_puzzles(group: Group) -> None:
    (member,) = group.members
    others = [
        dataclasses.replace(
            member, experiment=name, run=f"{name}-00000000-s0", split_digest=name, exact_accuracy=share
        )
        for name, share in (("mazes", 0.5), ("sudoku", 0.7))
    ]
    said = " ".join(findings(dataclasses.replace(group, members=[member, *others])))
    assert DIFFERENT_TESTS in said
    assert "best is" not in said
    assert "in order of accuracy" not in said
