"""Votes over augmentations: cropping, undoing, counting and ranking.

Votes of an evaluation on real ARC rows: the table compared with a plain recount, its parts, and unscored tasks.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import error_of, run_here
from tests.recorded import recorded_root
from tests.trm_data.kinds.test_arc import request, task, write
from tests.trm_eval.conftest import Evaluated
from tests.trm_train.test_loop import TINY, run
from trm_data.building.flow import build_dataset
from trm_data.catalog.query import query_catalog
from trm_data.kinds.arc.encode import ARC_EOS, Pair, encode_pairs
from trm_data.kinds.arc.symmetry import NUM_SYMMETRIES, ArcSymmetry, colour_maps
from trm_data.loader.dataset import Dataset, open_dataset
from trm_data.storage.root import Layout, resolve_root
from trm_eval.cli import main
from trm_eval.evaluation import prepare
from trm_eval.evaluation.flow import EvalResult, evaluate_run
from trm_eval.identity import EvalRequest
from trm_eval.submission import make_submission
from trm_eval.tables.query import query_results
from trm_eval.votes import (
    NO_GRID,
    VoteCounter,
    attempts,
    cells_of,
    crop_sizes,
    grid_of,
    undo,
)
from trm_train.runs.record import RunRecord, list_runs, read_record

SIDES = st.integers(1, 30)
SEEDS = st.integers(0, 2**32 - 1)


def canvas(lines: Sequence[str]) -> np.ndarray:
    """Return a row of tokens: digits are colours, `+` is EOS, a space is PAD."""
    tokens = np.zeros((1, 30, 30), np.uint8)
    for i, line in enumerate(lines):
        for j, cell in enumerate(line):
            tokens[0, i, j] = {"+": ARC_EOS, " ": 0}.get(cell, ord(cell) - ord("0") + 2)
    return tokens.reshape(1, 900)


@pytest.mark.parametrize(
    ("lines", "size"),
    [
        (["12+", "34+", "++"], (2, 2)),
        (["1234+", "12+"], (1, 4)),  # of 1x4 and 2x2, the one with fewer rows
        (["1234", "123", "12"], (2, 3)),
        (["12 4", "12+4", "1234"], (3, 2)),
        (["+123"], (0, 0)),
        (["1" * 30] * 30, (30, 30)),
        (["1" * 30] * 29 + ["+"], (29, 30)),
    ],
)
def test_the_largest_rectangle_of_colours_at_the_top_left(lines: list[str], size: tuple[int, int]) -> None:
    assert tuple(crop_sizes(canvas(lines))[0].tolist()) == size


def test_what_begins_with_no_colour_is_a_grid_of_no_cells() -> None:
    assert undo(canvas(["+12"]), np.array([1]), np.arange(10, dtype=np.uint8)[None]) == [NO_GRID]
    assert cells_of(NO_GRID).tolist() == []
    assert undo(np.zeros((0, 900), np.uint8), np.zeros(0, np.int64), np.zeros((0, 10), np.uint8)) == []


@settings(deadline=None, max_examples=60)
@given(SEEDS, st.lists(st.tuples(SIDES, SIDES, st.integers(0, NUM_SYMMETRIES - 1)), min_size=1, max_size=8))
def test_undoing_an_augmentation_gives_the_grid_back(seed: int, shapes: list[tuple[int, int, int]]) -> None:
    draws = np.random.default_rng(seed)
    grids = [draws.integers(0, 10, (rows, columns)).astype(np.uint8) for rows, columns, _ in shapes]
    elements = np.array([element for _, _, element in shapes])
    images = [
        ArcSymmetry.from_index(element).apply(grid)
        for grid, element in zip(grids, elements.tolist(), strict=True)
    ]
    tokens, _, _ = encode_pairs([Pair(image, None) for image in images])
    assert undo(tokens, elements % 8, colour_maps(elements)) == [grid_of(grid) for grid in grids]


VOTES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 3), st.sampled_from([-2.0, -0.3, 0.0, 0.1, 1.7])),
    max_size=60,
)
"""Test input, grid and halting logit of each prediction."""


def ballot(votes: list[tuple[int, int, float]], cuts: Sequence[int] = ()) -> pl.DataFrame:
    """Return the ranking of votes that are added in several parts."""
    taken = VoteCounter()
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(votes)], strict=True):
        part = votes[start:stop]
        taken.add(
            np.array([test for test, _, _ in part], np.int64),
            [bytes((1, 1, grid)) for _, grid, _ in part],
            np.array([q for _, _, q in part], np.float32),
            np.arange(start, start + len(part)),
        )
    return taken.ranked()


@pytest.mark.integration
@given(VOTES, st.data())
def test_votes_do_not_depend_on_the_parts_they_come_in(
    votes: list[tuple[int, int, float]], data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(votes)), max_size=5))
    assert ballot(votes).equals(ballot(votes, cuts))  # bit for bit


def slow_ranking(votes: list[tuple[int, int, float]]) -> list[tuple[int, int, int, float, bytes]]:
    """Rank by the rule of the reference: votes, then mean of sigmoid; Python's sort is stable."""
    found: list[tuple[int, int, int, float, bytes]] = []
    for test in sorted({test for test, _, _ in votes}):
        stats: dict[bytes, list[float]] = {}
        for other, grid, q in votes:
            if other == test:
                entry = stats.setdefault(bytes((1, 1, grid)), [0, 0.0])
                entry[0] += 1
                entry[1] += 1 / (1 + np.exp(-np.float64(np.float32(q))))
        means = {grid: (count, total / count) for grid, (count, total) in stats.items()}
        for place, (grid, (count, mean)) in enumerate(
            sorted(means.items(), key=lambda item: item[1], reverse=True), start=1
        ):
            found.append((test, place, int(count), mean, grid))
    return found


@given(VOTES)
def test_the_ranking_is_that_of_the_plain_rule(votes: list[tuple[int, int, float]]) -> None:
    got, expected = ballot(votes), slow_ranking(votes)
    assert got.select("test_input", "rank", "votes", "grid").rows() == [
        (test, place, count, grid) for test, place, count, _, grid in expected
    ]
    np.testing.assert_allclose(got["mean_q"], [mean for _, _, _, mean, _ in expected], rtol=1e-14)


def test_attempts_repeat_an_only_candidate_and_keep_the_place_of_none() -> None:
    one, two = bytes((1, 2, 5, 6)), bytes((1, 1, 3))
    assert attempts([one, two, two]) == {"attempt_1": [[5, 6]], "attempt_2": [[3]]}
    assert attempts([one]) == {"attempt_1": [[5, 6]], "attempt_2": [[5, 6]]}
    assert attempts([]) == {"attempt_1": [], "attempt_2": []}


AUG = 5
PASS_AT = (1, 2, 5, 10, 100, 1000)
"""Values of K in `catalogs/results.sql`."""
CONFIG = dataclasses.replace(
    TINY,
    data=dataclasses.replace(TINY.data, dataset="arc", global_batch_size=4),
    model=dataclasses.replace(TINY.model, puzzle_emb_ndim=16),
    optim=dataclasses.replace(TINY.optim, lr_warmup_steps=1),
    total_steps=2,
    execution=dataclasses.replace(TINY.execution, validate_every=2, checkpoint_every=1),
)


@dataclass(frozen=True)
class Voted:
    """A root with a run on ARC, evaluated at both of its checkpoints; tests must not change it."""

    layout: Layout
    record: RunRecord
    results: list[EvalResult]
    test: Dataset


def arc_folder(folder: Path) -> Path:
    """Write 4 training and 3 evaluation tasks; the last one has no solutions."""
    for subset, seeds in (("training", range(4)), ("evaluation", range(10, 13))):
        (folder / subset).mkdir(parents=True)
        for seed in seeds:
            write(folder / subset / f"task{seed:02}.json", task(100 * seed, solved=seed != 12))
    return folder


@pytest.fixture(scope="module")
def voted(tmp_path_factory: pytest.TempPathFactory) -> Voted:
    layout = recorded_root(tmp_path_factory.mktemp("voted"), "voted")
    (folder,) = list_runs(layout)
    rows = [
        pq.ParquetFile(path).read().to_pylist()[0] for path in Path(layout.place).glob("results/evals/*/*/*")
    ]
    record = read_record(folder)
    results = [
        EvalResult(run=record.run, experiment=record.experiment, row=row)
        for row in sorted(rows, key=lambda row: row["step"])
    ]
    return Voted(layout, record, results, open_dataset("arc", layout, "test"))


@pytest.fixture(scope="module")
def trained_votes(tmp_path_factory: pytest.TempPathFactory) -> Voted:
    """The same, trained and evaluated here, with its checkpoints."""
    folder = tmp_path_factory.mktemp("voted")
    layout = resolve_root(folder / "root")
    build_dataset(request(arc_folder(folder / "arc"), aug=AUG, val_size=1), layout)
    trained = run(layout, CONFIG)
    results = [
        evaluate_run(layout, trained.folder, EvalRequest(checkpoint=step, weights="raw"))
        for step in ("1", "2")
    ]
    return Voted(layout, trained.record, results, open_dataset("arc", layout, "test"))


def slow_votes(voted: Voted, evaluation: str) -> list[tuple[Any, ...]]:
    """Compute every candidate by the plain rule: task, test input, rank, votes, grid, right."""
    catalog = query_catalog(
        voted.layout,
        "SELECT group_index, augmentation, task, dihedral, colours FROM augmentations "
        "JOIN puzzles USING (dataset, split, group_index) WHERE split = 'test'",
    ).rows
    symmetries = {(group, k): (name, ArcSymmetry(d, tuple(map(int, c)))) for group, k, name, d, c in catalog}
    predictions = query_results(
        voted.layout,
        "SELECT row, group_index, augmentation, q_halt_logit, prediction FROM all_predictions "
        "WHERE evaluation = ? ORDER BY row",
        [evaluation],
    ).rows
    seen: dict[tuple[str, int], dict[str, list[float]]] = {}
    for row, group, augmentation, q, tokens in predictions:
        name, symmetry = symmetries[group, augmentation]
        example = int(voted.test.groups.picks(np.array([row])).examples[0])
        best = (0, 0)
        canvas = np.array(tokens).reshape(30, 30)
        for rows in range(1, 31):
            for columns in range(1, 31):
                if (canvas[:rows, :columns] >= 2).all() and rows * columns > best[0] * best[1]:
                    best = rows, columns
        grid = symmetry.inverse().apply((canvas[: best[0], : best[1]] - 2).astype(np.uint8))
        seen.setdefault((name, example), {}).setdefault(json.dumps(grid.tolist()), []).append(
            1 / (1 + np.exp(-np.float64(q)))
        )
    found: list[tuple[Any, ...]] = []
    for (name, example), candidates in sorted(seen.items()):
        pair = task(100 * int(name.removeprefix("task")), solved=name != "task12")["test"][example]
        order = sorted(
            candidates.items(), key=lambda item: (len(item[1]), sum(item[1]) / len(item[1])), reverse=True
        )
        for place, (text, qs) in enumerate(order, start=1):
            grid = json.loads(text)
            right = grid == pair["output"] if "output" in pair else None
            found.append((name, example, place, len(qs), grid, right))
    return found


@pytest.mark.parametrize("position", [0, 1])
def test_the_table_is_a_plain_recount(voted: Voted, position: int) -> None:
    evaluation = voted.results[position].row["evaluation"]
    rows = query_results(
        voted.layout,
        "SELECT task, test_index, rank, votes, rows, columns, grid, correct FROM votes "
        "WHERE evaluation = ? ORDER BY task, test_index, rank",
        [evaluation],
    ).rows
    got = [
        (*who, np.array(grid, np.int64).reshape(height, width).tolist(), right)
        for *who, height, width, grid, right in rows
    ]
    expected = slow_votes(voted, evaluation)
    assert got == expected
    assert sum(row[3] for row in got) == len(voted.test)
    assert Counter(row[:2] for row in got).keys() == {(f"task{n}", i) for n in (10, 11, 12) for i in (0, 1)}
    assert {row[0] for row in got if row[5] is None} == {"task12"}
    assert len(got) > len(voted.test) / 4  # an untrained network gives many different answers


def passed(candidates: list[tuple[Any, ...]], k: int) -> float:
    """Return the share of test inputs correct within the first k, averaged per task, then over scored tasks."""
    right: dict[str, dict[int, bool]] = {}
    for name, example, place, _, _, correct in candidates:
        if correct is not None:
            of_task = right.setdefault(name, {})
            of_task[example] = of_task.get(example, False) or (correct and place <= k)
    return float(np.mean([np.mean(list(of_task.values())) for of_task in right.values()]))


def test_pass_at_k_is_that_of_the_candidates(voted: Voted) -> None:
    for result in voted.results:
        evaluation = result.row["evaluation"]
        candidates = slow_votes(voted, evaluation)
        rows = query_results(
            voted.layout,
            "SELECT k, pass_at_k, tasks, test_inputs FROM pass_at_k WHERE evaluation = ? ORDER BY k",
            [evaluation],
        ).rows
        assert [(k, tasks, inputs) for k, _, tasks, inputs in rows] == [(k, 2, 4) for k in PASS_AT]
        assert [share for _, share, _, _ in rows] == [passed(candidates, k) for k in PASS_AT]
    named = query_results(voted.layout, "@pass_at_k").rows
    assert len(named) == len(PASS_AT) * len(voted.results)


@pytest.mark.integration
def test_right_answers_pass(trained_votes: Voted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unlike an untrained network: every row predicts its label, except that the rows of one test input are empty."""
    layout = copy_of(trained_votes, tmp_path)

    def answered(dataset: Dataset, rows: np.ndarray) -> np.ndarray:
        labels = dataset.read(rows)["labels"].astype(np.uint8)
        picks = dataset.groups.picks(rows)
        labels[(picks.groups == 0) & (picks.examples == 0)] = 0
        return labels

    compiled = prepare.compile_rollout

    def labels_instead(restored: Any, reader: Any, *asked: Any) -> Any:
        answer_all = compiled(restored, reader, *asked)

        def answer(rows: np.ndarray) -> Any:
            for batch in answer_all(rows):
                labels = reader.dataset.read(batch.rows)["labels"].astype(np.uint8)
                told = answered(reader.dataset, batch.rows)
                right = ((told == labels) | (labels == 0)).all(axis=1) & labels.any(axis=1)
                metrics = {**batch.metrics, "exact_accuracy": float(right.sum())}
                yield dataclasses.replace(batch, predictions=told, metrics=metrics)

        return answer

    monkeypatch.setattr(prepare, "compile_rollout", labels_instead)
    row = evaluate_run(layout, list_runs(layout)[0], EvalRequest(checkpoint="2", weights="raw")).row
    shares = query_results(
        layout, "SELECT DISTINCT pass_at_k FROM pass_at_k WHERE evaluation = ?", [row["evaluation"]]
    )
    first = query_catalog(layout, "SELECT task FROM puzzles WHERE split = 'test' AND group_index = 0").rows[
        0
    ][0]
    assert shares.rows == [(1.0 if first == "task12" else 0.75,)]
    made = make_submission(layout, trained_votes.record.run, evaluations=[row["evaluation"]])
    for name, tests in made.tasks.items():
        for index, attempt in enumerate(tests):
            pair = task(100 * int(name.removeprefix("task")), solved=name != "task12")["test"][index]
            grid = [] if (name, index) == (first, 0) else pair.get("output", [])
            wanted = grid or [[0]]  # no row gave a grid, and the competition accepts no empty grid
            assert attempt == {"attempt_1": wanted, "attempt_2": wanted}


def copy_of(voted: Voted, folder: Path) -> Layout:
    shutil.copytree(voted.layout.place, folder / "root", symlinks=True)
    return resolve_root(folder / "root")


@pytest.mark.integration
def test_what_is_not_voted_on(trained_votes: Voted, evaluated: Evaluated, tmp_path: Path) -> None:
    assert "vote_parts" not in evaluated.row
    layout = copy_of(trained_votes, tmp_path)
    (folder,) = list_runs(layout)
    for options in ({"limit": 5}, {"split": "train", "limit": 0}):
        row = evaluate_run(layout, folder, EvalRequest(checkpoint="2", weights="raw", **options)).row
        assert "vote_parts" not in row
    row = evaluate_run(layout, folder, EvalRequest(checkpoint="2", split="validation")).row
    assert {name for name, *_ in query_results(
        layout, "SELECT task, count(*) FROM votes WHERE evaluation = ? GROUP BY task", [row["evaluation"]]
    ).rows} == {task for (task,) in query_catalog(
        layout, "SELECT task FROM puzzles WHERE split = 'validation'"
    ).rows}  # fmt: skip


def test_rows_without_solutions_are_predicted_and_counted_nowhere(voted: Voted) -> None:
    row = voted.results[1].row
    unlabelled = query_results(
        voted.layout,
        "SELECT count(*), sum(cells) FROM predictions WHERE evaluation = ? AND exact IS NULL",
        [row["evaluation"]],
    ).rows
    assert unlabelled == [(len(voted.test) - row["count"], 0)]
    assert unlabelled[0][0] == 2 * (AUG + 1)
    assert sum(row["halting_by_depth"]) <= row["count"]
    assert row["exact_by_depth"][-1] == row["exact_count"]


def test_an_ensemble_counts_votes_together(voted: Voted) -> None:
    evaluations = [result.row["evaluation"] for result in voted.results]
    pooled: dict[tuple[str, int], dict[str, list[float]]] = {}
    for evaluation in evaluations:
        for name, example, _, count, mean, height, width, grid in query_results(
            voted.layout,
            "SELECT task, test_index, rank, votes, mean_q, rows, columns, grid FROM all_votes WHERE evaluation = ? "
            "ORDER BY first_row",
            [evaluation],
        ).rows:
            entry = pooled.setdefault((name, example), {}).setdefault(f"{height}x{width}:{grid}", [0, 0.0])
            entry[0] += count
            entry[1] += count * mean
    query = (
        "SELECT task, test_index, rank, votes, rows, columns, grid FROM pooled_votes(?) "
        "ORDER BY task, test_index, rank"
    )
    got = query_results(voted.layout, query, [evaluations]).rows
    expected: list[tuple[Any, ...]] = []
    for (name, example), candidates in sorted(pooled.items()):
        order = sorted(
            candidates.items(), key=lambda item: (item[1][0], item[1][1] / item[1][0]), reverse=True
        )
        expected += [(name, example, i, entry[0], text) for i, (text, entry) in enumerate(order, start=1)]
    assert [(*row[:4], f"{row[4]}x{row[5]}:{row[6]}") for row in got] == expected
    assert sum(row[3] for row in got) == 2 * len(voted.test)


def test_a_submission_has_two_attempts_at_every_test_input(voted: Voted, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "submission.json"
    words = ["submission", "tiny", "--root", voted.layout.place]
    done = run_here(main, *words, "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "3 tasks, 6 test inputs of arc test" in done.stdout
    assert f"at step 2, evaluation {voted.results[1].row['evaluation']}" in done.stdout
    assert "1 tasks have no solutions and are not scored" in done.stdout
    written = json.loads(out.read_text())
    candidates = slow_votes(voted, voted.results[1].row["evaluation"])
    assert list(written) == ["task10", "task11", "task12"]
    for name, tests in written.items():
        for index, attempt in enumerate(tests):
            best = [
                grid for who, i, place, _, grid, _ in candidates if (who, i) == (name, index) and place <= 2
            ]
            assert list(attempt.values()) == [grid or [[0]] for grid in (best * 2)[:2]]
            assert list(attempt) == ["attempt_1", "attempt_2"]
    share = passed(candidates, 2)
    assert f"pass@2 {100 * share:.2f}%" in done.stdout
    first, second = (result.row["evaluation"] for result in voted.results)
    words += ["--out", str(out), "--json", "--evaluation"]
    one = json.loads(run_here(main, *words, first).stdout)
    assert (one["steps"], one["evaluations"]) == ([1], [first])
    both = json.loads(run_here(main, *words, f"{second},{first}").stdout)
    assert both["steps"] == [2, 1]
    assert both["tasks"] == json.loads(out.read_text())


def test_submissions_that_cannot_be(voted: Voted, evaluated: Evaluated, tmp_path: Path) -> None:
    def refused(layout: Layout, *words: str) -> str:
        out = ("--root", layout.place, "--out", str(tmp_path / "x"))
        code, line = error_of(main, "submission", "tiny", *out, *words)
        assert code == 2
        assert not (tmp_path / "x").exists()
        return line

    (folder,) = list_runs(voted.layout)
    assert "no evaluation has votes" in refused(evaluated.layout)
    assert f"Run trm-eval run {folder.name} --dataset other without" in refused(
        voted.layout, "--dataset", "other"
    )
    assert "has no evaluation 7 with votes" in refused(voted.layout, "--evaluation", "7")
    assert "--evaluation: not with --dataset" in refused(
        voted.layout, "--evaluation", "7", "--dataset", "other"
    )


def test_predictions_name_the_task_of_their_row(voted: Voted) -> None:
    sql = "SELECT DISTINCT group_index, task FROM predicted_puzzles WHERE split = 'test' ORDER BY ALL"
    facts = query_catalog(
        voted.layout, "SELECT DISTINCT group_index, task FROM puzzles WHERE split = 'test' ORDER BY ALL"
    )
    found = query_results(voted.layout, sql).rows
    assert found == facts.rows
    assert {task for _, task in found} == {"task10", "task11", "task12"}
