"""Runs of a root: records, status, pruning and copies."""
