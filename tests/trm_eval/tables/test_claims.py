"""Published results: every row is valid and has a source; they are compared by protocol."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.trm_eval.conftest import Evaluated
from trm_data.errors import QueryError
from trm_data.storage.root import resolve_root
from trm_eval.tables.live import SOURCE, STATED, claims_table, read_claims
from trm_eval.tables.query import query_results

TEXT = (PROJECT / "catalogs" / "claims.csv").read_text("utf-8")
HEADER, FIRST = TEXT.splitlines()[:2]


def test_every_row_has_its_form_and_a_source() -> None:
    rows = claims_table().to_pylist()
    assert len(rows) == 83
    for row in rows:
        assert SOURCE.fullmatch(row["source"]), row
        assert row["stated"] in STATED
        assert row["work"]
        assert 0 <= row["value"] <= 100
        assert row["metric"] in ("exact_accuracy", "optimal_accuracy", "pass@1", "pass@2")
        assert row["depth"] is None or row["depth"] >= 1
    assert sum(row["stated"] == "second-hand" for row in rows) == 22


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "arXiv:2510.04871",
            "",
            r"claims.csv:2: source is ''; expected arXiv:NUMBER, github:OWNER/NAME, .*arcprize.org",
        ),
        ("arXiv:2510.04871", "someone told me", "source is 'someone told me'; expected"),
        ("87.4", "high", "claims.csv:2: value is 'high'; expected double"),
        ("87.4", "874", "a value of 0 to 100 percent"),
        ("primary", "rumour", "stated is 'rumour'; expected primary or second-hand"),
    ],
)
def test_a_row_of_another_form_is_named(old: str, new: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        read_claims(f"{HEADER}\n{FIRST.replace(old, new)}\n", "claims.csv")


def test_a_missing_column_is_named() -> None:
    with pytest.raises(QueryError, match="missing: source"):
        read_claims(HEADER.replace("source", "from") + "\n", "claims.csv")


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
    assert {"depth", "training puzzles"} <= set(protocol.removeprefix("differs: ").split(", "))
    assert "not stated" in rows["CGAR", 86.02][1]


def _query() -> str:
    return (PROJECT / "catalogs" / "queries" / "claims.sql").read_text("utf-8").strip().rstrip(";")


def test_the_same_protocol_is_said() -> None:
    """Runs the query itself, on an evaluation like the paper's."""
    import duckdb

    with duckdb.connect() as connection:
        connection.register("claims", claims_table())
        connection.execute(
            "CREATE TABLE splits AS "
            "SELECT 'sudoku-extreme-1000-aug-1000' AS dataset, 'train' AS split, 1000 AS num_groups"
        )
        connection.execute("CREATE TABLE datasets AS SELECT dataset, 'sudoku' AS kind FROM splits")
        connection.execute(
            "CREATE TABLE runs AS SELECT 'r' AS run, 'sudoku-extreme-1000-aug-1000' AS dataset"
        )
        connection.execute(
            "CREATE TABLE evals AS SELECT 'r' AS run, 1 AS step, 'e' AS evaluation, "
            "'sudoku-extreme-1000-aug-1000' AS dataset, 0 AS row_limit, 'test' AS split, 'ema' AS weights, "
            "0.85 AS exact_accuracy, NULL::DOUBLE AS optimal_share, 16 AS supervision_steps, NULL AS samples, "
            "NULL AS selection, 'bfloat16' AS precision"
        )
        connection.execute("CREATE TABLE pass_at_k (evaluation VARCHAR, k INTEGER, pass_at_k DOUBLE)")
        found = dict(connection.execute(f"SELECT work, protocol FROM ({_query()})").fetchall())
    assert found["TRM-MLP"] == "same protocol"
    assert found["EqR depth 64 breadth 128"] == "differs: depth, breadth, selection, precision not stated"
