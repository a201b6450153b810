"""The result tables: their schemas, their writer, which never exposes partial results, and SQL access."""
