"""The dataset catalog: SQL tables as Parquet beside the shards, and one DuckDB file over all datasets."""
