"""Published results: every row is valid and has a source; they are compared by protocol."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import duckdb
import pytest

from tests.conftest import PROJECT
from tests.trm_eval.conftest import Evaluated
from trm_data.named import named_dataset, named_datasets
from trm_data.storage.root import resolve_root
from trm_eval.tables.live import claims_table
from trm_eval.tables.query import query_results

SOURCE = re.compile(
    r"arXiv:\d{4}\.\d{5}|github:[\w.-]+/[\w.-]+|huggingface:[\w.-]+/[\w.-]+|arcprize\.org(/[\w./-]+)?"
)


def test_every_row_has_its_form_and_a_source() -> None:
    rows = claims_table().to_pylist()
    assert len(rows) == 83
    for row in rows:
        assert SOURCE.fullmatch(row["source"]), row
        assert row["stated"] in ("primary", "second-hand")
        assert row["work"]
        assert row["dataset"]
        assert 0 <= row["value"] <= 100
        assert row["metric"] in ("exact_accuracy", "optimal_accuracy", "pass@1", "pass@2")
        assert row["depth"] is None or row["depth"] >= 1
    assert sum(row["stated"] == "second-hand" for row in rows) == 22


def test_claims_stand_beside_evaluations_with_what_differs(evaluated: Evaluated, tmp_path: Path) -> None:
    layout = resolve_root(shutil.copytree(evaluated.layout.place, tmp_path / "root", symlinks=True))
    rows = {
        (row[0], row[1]): row[2:]
        for row in query_results(
            layout,
            f"SELECT work, claimed_percent, our_percent, protocol FROM ({_query()})",
        ).rows
    }
    ours, protocol = rows["TRM-MLP", 87.4]
    assert ours == pytest.approx(100 * evaluated.row["exact_count"] / evaluated.row["count"], abs=0.01)
    assert protocol.startswith("differs: ")
    assert {"dataset", "depth", "training puzzles"} <= set(protocol.removeprefix("differs: ").split(", "))
    assert "not stated" in rows["CGAR", 86.02][1]


def _query() -> str:
    return (PROJECT / "catalogs" / "queries" / "claims.sql").read_text("utf-8").strip().rstrip(";")


DIGEST = named_dataset("arc1concept-aug-1000").digest
LIKE_THE_PAPER = {
    "dataset": "'mine'",
    "kind": "'sudoku'",
    "content_digest": f"'{DIGEST}'",
    "trained_on": f"'{DIGEST}'",
    "split_digest": "'t'",
    "num_groups": "1000",
    "mode": "'max_steps'",
    "identifiers": "'own'",
    "adapt_weights": "NULL::BOOLEAN",
    "noise": "NULL::DOUBLE",
    "latent_init": "'fixed'",
}


def protocols(**changes: str) -> dict[str, str]:
    """Run the query itself on an evaluation like the paper's, but for changes; return the protocol of each work.

    The digest of published Sudoku is unknown: that of published ARC stands in for it.
    """
    of = LIKE_THE_PAPER | changes
    query = _query().replace("'arc-agi-1'", "'sudoku-extreme'")
    with duckdb.connect() as connection:
        connection.register("claims", claims_table())
        connection.execute(
            f"CREATE TABLE splits AS SELECT {of['dataset']} AS dataset, "
            f"unnest(['train', 'test']) AS split, {of['num_groups']} AS num_groups, unnest(['l', 't']) AS digest"
        )
        connection.execute(
            f"CREATE TABLE datasets AS SELECT {of['dataset']} AS dataset, {of['kind']} AS kind, "
            f"{of['content_digest']} AS digest"
        )
        connection.execute(f"CREATE TABLE runs AS SELECT 'r' AS run, {of['trained_on']} AS content_digest")
        connection.execute(
            f"CREATE TABLE evals AS SELECT 'r' AS run, 1 AS step, 'e' AS evaluation, {of['dataset']} AS dataset, "
            f"{of['split_digest']} AS split_digest, 0 AS row_limit, 'test' AS split, 'ema' AS weights, "
            f"0.85 AS exact_accuracy, NULL::DOUBLE AS optimal_share, 16 AS supervision_steps, NULL AS samples, "
            f"NULL AS selection, 'bfloat16' AS precision, {of['mode']} AS mode, {of['identifiers']} AS identifiers, "
            f"{of['adapt_weights']} AS adapt_weights, {of['noise']} AS noise, {of['latent_init']} AS latent_init"
        )
        connection.execute("CREATE TABLE pass_at_k (evaluation VARCHAR, k INTEGER, pass_at_k DOUBLE)")
        return dict(connection.execute(f"SELECT work, protocol FROM ({query})").fetchall())


def test_the_same_protocol_is_said() -> None:
    found = protocols()
    assert found["TRM-MLP"] == "same protocol"
    assert found["EqR depth 64 breadth 128"] == "differs: depth, breadth, selection, precision not stated"


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        (
            {"dataset": "'sudoku-extreme-1000-aug-1000'", "content_digest": "'other'"},
            "dataset, training puzzles",
        ),
        ({"split_digest": "'built since'"}, "dataset, training puzzles"),
        ({"num_groups": "500"}, "training puzzles"),
        ({"identifiers": "'blank'"}, "blank identifiers"),
        ({"mode": "'halting'"}, "mode halting"),
        ({"adapt_weights": "true"}, "adapted weights"),
        ({"noise": "0.5"}, "noise"),
        ({"latent_init": "'random'"}, "random latents"),
    ],
)
def test_what_differs_from_the_published_protocol_is_named(changes: dict[str, str], differs: str) -> None:
    if changes.get("split_digest"):
        changes |= {"dataset": "'sudoku-extreme'"}
    assert protocols(**changes)["TRM-MLP"] == f"differs: {differs}"


def test_published_digests_are_those_of_the_named_datasets() -> None:
    published = re.findall(r"\('([\w-]+)', '(\w{64})'\)", _query())
    assert published == [
        ("arc-agi-1", DIGEST),
        ("arc-agi-2", named_dataset("arc2concept-aug-1000").digest),
    ]
    for name, dataset in named_datasets().items():
        if name.startswith(("sudoku-extreme", "maze-30x30-hard")):
            assert not dataset.digest, f"{name}: add its digest to catalogs/queries/claims.sql"
