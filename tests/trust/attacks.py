"""SQL that tries to change something or to access files outside its root. None of it may succeed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb

WRITING = "WITH x AS (COPY (SELECT 1) TO ''PLACE'' (USE_TMP_FILE false)) FROM x"
_SERIALIZED = duckdb.execute(f"SELECT json_serialize_sql('{WRITING}')").fetchall()[0][0]
SERIALIZED = _SERIALIZED.replace("{", "{{").replace("}", "}}").replace("PLACE", "{}")
"""A statement that writes, in DuckDB's JSON form."""

WRITES = (
    "COPY (SELECT 1) TO '{}'",
    "COPY (SELECT 1) TO '{}' (USE_TMP_FILE false)",
    "COPY (SELECT 1) TO '{}' (FORMAT parquet)",
    "COPY (SELECT 'a') TO '{}' (FORMAT csv, HEADER false, OVERWRITE_OR_IGNORE)",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{}'",
    "explain analyze copy (select 1) to '{}'",
    "EXPLAIN (ANALYZE) COPY (SELECT 1) TO '{}'",
    "/* SELECT */ COPY (SELECT 1) TO '{}'",
    "ATTACH '{}' AS other",
    "ATTACH OR REPLACE '{}' AS catalog",
    "EXPORT DATABASE '{}'",
    "IMPORT DATABASE '{}'",
    "SET temp_directory = '{}'",
    "SET home_directory = '{}'",
    "SET log_query_path = '{}'",
    "PRAGMA profiling_output = '{}'",
    "SET extension_directory = '{}'",
    "SET secret_directory = '{}'",
    "LOAD '{}'",
    "INSTALL '{}'",
    "PREPARE p AS COPY (SELECT 1) TO '{}'",
    "WITH x AS (COPY (SELECT 42 AS x) TO '{}' (FORMAT parquet, USE_TMP_FILE false)) SELECT * FROM x",
    "WITH x AS (COPY (SELECT 42 AS x) TO (format('{}', 1))) FROM x LIMIT 0",
    "EXPLAIN (ANALYZE /*) select 1 from predictions --*/) COPY (SELECT 1) TO '{}' (USE_TMP_FILE false)",
    "EXPLAIN (ANALYZE false) COPY (SELECT 1) TO '{}' (USE_TMP_FILE false)",
    "EXPLAIN (ANALYZE) WITH x AS (COPY (SELECT 1) TO '{}' (USE_TMP_FILE false)) FROM x",
    "WITH x AS (COPY (SELECT 1 AS a) TO '{}' (USE_TMP_FILE false)) PIVOT x ON a USING count(*)",
    "EXPLAIN WITH x AS (COPY (SELECT 1 AS a) TO '{}' (USE_TMP_FILE false)) PIVOT x ON a USING count(*)",
    "SELECT * FROM query('WITH x AS (COPY (SELECT 1) TO ''{}'' (USE_TMP_FILE false)) FROM x')",
    f"SELECT * FROM json_execute_serialized_sql('{SERIALIZED}')",
    f"SELECT * FROM json_execute_serialized_sql('{SERIALIZED}') WHERE now() < '2000-01-01'::TIMESTAMPTZ",
    "SELECT * FROM query(CASE WHEN current_query() LIKE 'EXPLAIN%' THEN 'SELECT 1' ELSE "
    f"'SELECT * FROM json_execute_serialized_sql(''{SERIALIZED}'')' END)",
    "SELECT * FROM query(CASE WHEN random() < 0.5 THEN 'SELECT 1' ELSE "
    f"'SELECT * FROM json_execute_serialized_sql(''{SERIALIZED}'')' END)",
)
"""Statements that write to a path, or let DuckDB write to it."""

READS = (
    "SELECT * FROM read_csv('{}')",
    "SELECT * FROM read_text('{}')",
    "SELECT * FROM read_blob('{}')",
    "SELECT * FROM read_parquet('{}')",
    "SELECT * FROM read_json('{}')",
    "SELECT * FROM '{}'",
    "FROM glob('{}')",
    "SELECT * FROM parquet_metadata('{}')",
    "SELECT * FROM sniff_csv('{}')",
    "WITH t AS (SELECT * FROM read_text('{}')) SELECT * FROM t",
    "SELECT (SELECT content FROM read_text('{}'))",
    "SELECT * FROM query('SELECT * FROM read_text(''{}'')')",
    "SELECT * FROM query_table('{}')",
    "SUMMARIZE FROM read_csv('{}')",
    "DESCRIBE FROM read_csv('{}')",
)
"""Queries that read a file of the machine."""

STATEMENTS = (
    "DELETE FROM puzzles",
    "DELETE FROM catalog.puzzles",
    "UPDATE puzzles SET rating = 0",
    "UPDATE catalog.splits SET digest = 'x'",
    "INSERT INTO splits SELECT * FROM splits",
    "INSERT INTO catalog.datasets SELECT * FROM catalog.datasets",
    "TRUNCATE catalog.puzzles",
    "DROP TABLE puzzles",
    "DROP TABLE catalog.puzzles",
    "DROP VIEW puzzles",
    "DROP SCHEMA main CASCADE",
    "DROP DATABASE catalog",
    "ALTER TABLE catalog.puzzles RENAME TO other",
    "ALTER TABLE puzzles ADD COLUMN mine INT",
    "COMMENT ON TABLE catalog.puzzles IS 'mine'",
    "CREATE TABLE mine (a INT)",
    "CREATE TABLE catalog.mine (a INT)",
    "CREATE OR REPLACE TABLE catalog.puzzles AS SELECT 1",
    "CREATE TEMP TABLE mine AS SELECT 1",
    "CREATE VIEW mine AS SELECT 1",
    "CREATE OR REPLACE VIEW puzzles AS SELECT 1",
    "CREATE MACRO count(x) AS 0",
    "CREATE SEQUENCE mine",
    "CREATE INDEX mine ON catalog.puzzles (rating)",
    "CREATE SCHEMA mine",
    "CREATE TYPE mine AS INT",
    "CREATE SECRET mine (TYPE s3)",
    "WITH gone AS (DELETE FROM catalog.puzzles RETURNING *) SELECT * FROM gone",
    "WITH new AS (INSERT INTO catalog.datasets SELECT * FROM catalog.datasets RETURNING *) FROM new",
    "WITH new AS (UPDATE catalog.puzzles SET rating = 0 RETURNING *) FROM new",
    "MERGE INTO catalog.puzzles USING catalog.puzzles AS p ON true WHEN MATCHED THEN DELETE",
    "EXPLAIN ANALYZE DELETE FROM catalog.puzzles",
    "EXPLAIN ANALYZE CREATE TABLE mine AS SELECT 1",
    "explain /* c */ analyze delete from catalog.puzzles",
    "CHECKPOINT",
    "FORCE CHECKPOINT catalog",
    "CALL force_checkpoint('catalog')",
    "VACUUM",
    "ANALYZE",
    "BEGIN TRANSACTION",
    "COMMIT",
    "ROLLBACK",
    "DETACH catalog",
    "USE memory",
    "USE system",
    "ATTACH ':memory:' AS other",
    "INSTALL httpfs",
    "LOAD httpfs",
    "FORCE INSTALL spatial FROM community",
    "SET enable_external_access = true",
    "SET GLOBAL enable_external_access = true",
    "RESET enable_external_access",
    "SET lock_configuration = false",
    "SET allowed_paths = ['/']",
    "SET allowed_directories = ['/']",
    "SET disabled_filesystems = ''",
    "SET allow_unsigned_extensions = true",
    "SET memory_limit = '1TB'",
    "SET threads = 1000",
    "SET VARIABLE mine = 1",
    "PRAGMA enable_profiling",
    "PRAGMA database_list",
    "PRAGMA enable_checkpoint_on_shutdown",
    "CALL pragma_version()",
    "CALL enable_logging()",
    "EXECUTE mine",
    "DEALLOCATE mine",
    "SELECT 1; DROP TABLE catalog.puzzles",
    "SELECT 1; SELECT 2",
    "; ;",
    "",
    "-- nothing",
    "not sql",
    "SELECT * FROM nothing",
    "SELECT * FROM read_parquet('s3://bucket/x.parquet')",
    "SELECT * FROM read_text('http://localhost:1/x')",
    "SELECT * FROM 'https://localhost:1/x.csv'",
    "ATTACH 'postgres:host=localhost' AS other (TYPE postgres)",
    "SELECT * FROM layout",
    "SELECT * FROM connection",
    "SELECT * FROM python_map_function",
    "SELECT * FROM checkpoint()",
    "SELECT * FROM force_checkpoint('catalog')",
    "SELECT * FROM truncate_duckdb_logs()",
    "SELECT * FROM query('SELECT 1')",
    "SELECT (SELECT a FROM main.\"QUERY\"('SELECT 1 AS a'))",
    "DESCRIBE FROM system.main.query('SELECT 1')",
    "EXPLAIN FROM query('SELECT 1')",
    "WITH x AS (ATTACH ':memory:' AS other) FROM x",
    "SELECT 'a' || chr(0); DROP TABLE x",
    "SELECT \udcff",
    "\udcff",
    "\x00",
)
"""Statements that change data or settings, and texts that are not a query."""


def attacks(root: Path, outside: Path) -> Iterator[str]:
    """Yield about 300 statements against a root and a folder next to it, which is the current folder."""
    targets = (
        root / "catalog.duckdb",
        root / "catalog.duckdb.wal",
        root / "catalog.duckdb.wal.recovery",
        root / "mine.csv",
        outside / "mine.csv",
        outside / ".tmp" / "mine",
        outside / "catalog.duckdb.tmp" / "mine",
    )
    for statement in WRITES:
        for target in targets:
            yield statement.format(target)
    for statement in READS:
        for target in (root / "catalog.duckdb", outside / "secret.csv", Path("/etc/passwd")):
            yield statement.format(target)
    yield from STATEMENTS


def writes(path: Path) -> list[str]:
    """Return the statements that would write to this path."""
    return [statement.format(path) for statement in WRITES]
