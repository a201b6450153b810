"""Adaptation to new tasks before the evaluation: what is trained, when it ends, and what is recorded."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

import trm_eval
from tests.conftest import run_here
from tests.trm_data.kinds.test_arc import request, task, write
from tests.trm_eval.test_votes import AUG, CONFIG, arc_folder
from tests.trm_train.test_loop import run
from trm_data.building.flow import build_dataset
from trm_data.loader.dataset import open_dataset
from trm_data.show.progress import NoProgress
from trm_data.storage.root import Layout, resolve_root
from trm_data.storage.store import Folder
from trm_eval.adapt import Adapted, adapt
from trm_eval.cli import main
from trm_eval.errors import EvalError
from trm_eval.evaluation.flow import evaluate_run
from trm_eval.identity import Adaptation, EvalRequest
from trm_eval.infer import LoadedNetwork, restore
from trm_eval.submission import make_submission
from trm_train.runs.record import list_runs, read_record


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A run on some tasks, and a dataset of others; tests must not change it."""
    folder = tmp_path_factory.mktemp("adapt")
    layout = resolve_root(folder / "root")
    build_dataset(request(arc_folder(folder / "arc"), aug=AUG, val_size=1), layout)
    for subset, seeds in (("training", (20,)), ("evaluation", (30, 31))):
        (folder / "others" / subset).mkdir(parents=True)
        for seed in seeds:
            write(folder / "others" / subset / f"task{seed:02}.json", task(100 * seed, solved=True))
    others = dataclasses.replace(request(folder / "others", aug=AUG, val_size=0), name="others")
    build_dataset(others, layout)
    run(layout, CONFIG)
    return layout


def restored(layout: Layout) -> tuple[Folder, LoadedNetwork]:
    (folder,) = list_runs(layout)
    return folder, restore(folder, read_record(folder), step=2, weights="ema")


def learned(layout: Layout, dataset: str, wanted: Adaptation) -> tuple[LoadedNetwork, Adapted]:
    _, before = restored(layout)
    return before, adapt(before, open_dataset(dataset, layout, "train"), wanted, NoProgress())


def test_embeddings_of_unseen_tasks_begin_at_zero_and_move_alone(layout: Layout) -> None:
    before, after = learned(layout, "others", Adaptation(steps=6))
    table = np.asarray(after.restored.weights.puzzle_table)
    identifiers = open_dataset("others", layout, "train").manifest.num_identifiers
    assert after.steps == 6
    assert after.restored.record.input_spec.num_identifiers == identifiers
    assert np.abs(table[1:identifiers]).max() > 0
    assert not table[identifiers:].any()
    was, now = before.weights.params, after.restored.weights.params
    jax.tree.map(np.testing.assert_array_equal, was, now)


def test_weights_move_where_they_are_to_and_the_same_steps_give_the_same(layout: Layout) -> None:
    wanted = Adaptation(steps=2, weights=True)
    before, after = learned(layout, "others", wanted)
    moved = [
        np.abs(np.asarray(now) - np.asarray(was)).max()
        for was, now in zip(
            jax.tree.leaves(before.weights.params),
            jax.tree.leaves(after.restored.weights.params),
            strict=True,
        )
    ]
    assert max(moved) > 0
    _, again = learned(layout, "others", wanted)
    jax.tree.map(np.testing.assert_array_equal, after.restored.weights.params, again.restored.weights.params)


def test_its_own_dataset_goes_on_from_the_learned_embeddings(layout: Layout) -> None:
    before, after = learned(layout, "arc", Adaptation(steps=1))
    was, now = (np.asarray(one.weights.puzzle_table) for one in (before, after.restored))
    assert was.shape == now.shape
    rate = CONFIG.optim.puzzle_emb_lr * (1 + CONFIG.optim.puzzle_emb_weight_decay)
    assert 0 < np.abs(now - was).max() <= rate * 1.001
    assert np.abs(was).max() > 0


def test_time_ends_it(layout: Layout) -> None:
    _, after = learned(layout, "others", Adaptation(minutes=0.2))
    assert after.steps > 1
    assert after.seconds < 15
    with pytest.raises(EvalError, match=r"--adapt 1e-09: too short: compilation took .* minutes"):
        learned(layout, "others", Adaptation(minutes=1e-9))


def test_the_evaluation_of_unseen_tasks_says_what_was_learned_before(layout: Layout, tmp_path: Path) -> None:
    copy = resolve_root(shutil.copytree(layout.place, tmp_path / "root"))
    (folder,) = list_runs(copy)
    with pytest.raises(EvalError, match="Use --identifiers blank, or learn them first with --adapt MINUTES"):
        evaluate_run(copy, folder, EvalRequest(dataset="others"))
    wanted = Adaptation(steps=2)
    plain = evaluate_run(copy, folder, EvalRequest(dataset="others", identifiers="blank"))
    result = evaluate_run(copy, folder, EvalRequest(dataset="others", adaptation=wanted))
    assert result.row["evaluation"] != plain.row["evaluation"]
    assert (result.row["adapt_steps"], result.row["adapt_weights"]) == (2, False)
    assert result.row["adapt_seconds"] > 0
    assert result.row["vote_parts"]
    how = trm_eval.sql("SELECT how FROM evals WHERE adapt_steps IS NOT NULL", copy)["how"].to_list()
    assert how == ["max_steps, embeddings adapted in 2 steps"]
    assert len(trm_eval.sql("FROM evals", copy)) == 2
    done = run_here(
        main,
        "run",
        folder.name,
        "--dataset",
        "others",
        "--adapt-steps",
        "2",
        "--adapt-weights",
        "--root",
        copy.place,
    )
    assert done.returncode == 0, done.stderr
    assert len(trm_eval.sql("FROM evals", copy)) == 3


def test_a_submission_for_unseen_tasks(layout: Layout, tmp_path: Path) -> None:
    copy = resolve_root(shutil.copytree(layout.place, tmp_path / "root"))
    (folder,) = list_runs(copy)
    ids = [
        evaluate_run(copy, folder, EvalRequest(dataset="others", adaptation=Adaptation(steps=steps))).row[
            "evaluation"
        ]
        for steps in (1, 2)
    ]
    own = evaluate_run(copy, folder, EvalRequest()).row["evaluation"]
    made = make_submission(copy, folder.name, dataset="others")
    assert (made.evaluations, sorted(made.tasks)) == ([ids[1]], ["task30", "task31"])
    assert make_submission(copy, folder.name).evaluations == [own]
    both = make_submission(copy, folder.name, evaluations=ids)
    assert (both.evaluations, sorted(both.tasks)) == (ids, ["task30", "task31"])

    def refused(*words: str) -> str:
        out = str(tmp_path / "x.json")
        done = run_here(main, "submission", folder.name, "--root", copy.place, "--out", out, *words)
        assert done.returncode == 2
        return done.stderr

    assert "has no evaluation 0123456789abcdef" in refused("--evaluation", "0123456789abcdef")
    assert "are of different puzzles" in refused("--evaluation", f"{own},{ids[0]}")


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (Adaptation(), "--adapt-weights: requires --adapt MINUTES or --adapt-steps N"),
        (Adaptation(minutes=float("nan")), "--adapt: got nan; expected more than 0"),
        (Adaptation(steps=0), "--adapt-steps: got 0; expected at least 1"),
    ],
)
def test_an_end_is_needed(wanted: Adaptation, message: str) -> None:
    with pytest.raises(EvalError, match=message):
        EvalRequest(adaptation=wanted).check()
