"""Verification of datasets: `flow` is the outline, `rows` the check of one shard."""
