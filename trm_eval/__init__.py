"""Evaluates checkpoints and keeps the results as Parquet tables that are read with SQL."""
