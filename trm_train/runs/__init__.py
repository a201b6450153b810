"""Runs of a root: records, status, resuming and pruning."""
