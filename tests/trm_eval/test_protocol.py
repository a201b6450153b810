"""Every accuracy records how it was measured: precision, latents, network calls, FLOPs, depth and breadth."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

import trm_data.cli
from tests.conftest import error_of, run_here
from tests.trm_eval.conftest import Evaluated
from tests.trm_eval.test_identity import id_of
from trm_data.storage.root import Layout, resolve_root
from trm_eval.cli import main
from trm_eval.identity import EvalRequest, Sampling
from trm_eval.tables.query import query_results
from trm_train.cost import count_network


@pytest.fixture(scope="module")
def layout(evaluated: Evaluated, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    root = tmp_path_factory.mktemp("protocol") / "root"
    shutil.copytree(evaluated.layout.place, root, symlinks=True)
    return resolve_root(root)


def evaluate(layout: Layout, *options: str) -> dict[str, Any]:
    done = run_here(main, "run", "tiny", *options, "--root", layout.place, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_an_evaluation_states_what_it_took(evaluated: Evaluated, layout: Layout) -> None:
    model = evaluated.record.config.model
    row = evaluate(layout, "--steps", "2")
    flops = count_network(model, evaluated.record.input_spec).flops
    assert flops is not None
    assert (row["precision"], row["latent_init"]) == (model.forward_dtype, "fixed")
    assert row["network_calls"] == 2 * model.h_cycles * (model.l_cycles + 1)
    assert row["flops"] == pytest.approx(2 * (flops.think + flops.answers))


def test_the_protocol_of_an_evaluation_of_the_first_format_is_unknown_and_as_published(
    tmp_path: Path,
) -> None:
    with tarfile.open(Path(__file__).parents[1] / "fixtures" / "format_1_root.tar.xz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # from Python 3.11.4 on
        archive.extractall(tmp_path)
    layout = resolve_root(tmp_path)
    sql = "SELECT precision, network_calls, flops, latent_init, as_published FROM evals"
    rows = query_results(layout, sql).rows
    assert set(rows) == {(None, None, None, "fixed", True)}


@pytest.mark.integration
def test_another_precision_is_another_evaluation_and_the_runs_own_is_not(
    evaluated: Evaluated, layout: Layout
) -> None:
    own = evaluated.record.config.model.forward_dtype
    other = "bfloat16" if own == "float32" else "float32"
    default, same, changed = (
        evaluate(layout, *options) for options in ((), ("--precision", own), ("--precision", other))
    )
    assert default["evaluation"] == same["evaluation"] == evaluated.row["evaluation"]
    assert changed["evaluation"] != default["evaluation"]
    assert changed["precision"] == other
    found = query_results(
        layout, "SELECT how, as_published FROM evals WHERE evaluation = ?", [changed["evaluation"]]
    ).rows
    assert found == [(f"max_steps, {other}", False)]


def test_new_fields_enter_the_id_only_where_they_are_used(evaluated: Evaluated) -> None:
    sampling = Sampling(samples=2)
    ids = [
        id_of(evaluated, request=EvalRequest(sampling=sampling, **changes))
        for changes in ({}, {"depths": (1, 2)}, {"precision": "float32"}, {"latent_init": "random"})
    ]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3
    assert id_of(evaluated) == evaluated.row["evaluation"]


def test_one_pass_writes_every_depth_and_breadth(layout: Layout) -> None:
    row = evaluate(layout, "--steps", "1,2,4", "--samples", "1,2,3", "--noise", "0.5")
    rows = query_results(
        layout,
        "SELECT depth, samples_per_row, exact_count, network_calls, flops, seconds_of FROM scaling "
        "WHERE evaluation = ? ORDER BY depth, samples_per_row",
        [row["evaluation"]],
    ).rows
    assert [cell[:2] for cell in rows] == [(depth, breadth) for depth in (1, 2, 4) for breadth in (1, 2, 3)]
    assert [cell[2] for cell in rows] == [count for counts in row["scaling_exact"] for count in counts]
    assert [cell[3] / rows[0][3] for cell in rows] == [1, 2, 3, 2, 4, 6, 4, 8, 12]
    assert rows[-1][4] == pytest.approx(row["flops"])
    assert rows[-1][5] == pytest.approx(row["seconds"])
    kept = query_results(
        layout,
        "SELECT depth, answers, solved + lost = ever FROM retention WHERE evaluation = ? ORDER BY depth",
        [row["evaluation"]],
    ).rows
    assert kept == [(depth, 3 * 12, True) for depth in (1, 2, 3, 4)]
    for query in ("scaling", "retention"):
        said = run_here(main, "sql", f"@{query}", "--format", "csv", "--root", layout.place)
        assert row["evaluation"] in said.stdout


def test_rules_are_refused_for_rows_without_them(layout: Layout, tmp_path: Path) -> None:
    folder, at = tmp_path / "npy", ("--root", layout.place)
    assert run_here(trm_data.cli.main, "export", "small", "--out", str(folder), *at).returncode == 0
    (folder / "export.json").unlink()  # names the kind
    assert run_here(trm_data.cli.main, "import", str(folder), "--name", "plain", *at).returncode == 0
    options = ("--dataset", "plain", "--samples", "2", "--select", "rules")
    code, line = error_of(main, "run", "tiny", *options, *at)
    assert (code, "--select rules: the puzzles of plain" in line) == (2, True), line
