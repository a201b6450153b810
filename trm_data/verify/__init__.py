"""Checks datasets: `flow` is the whole of it, `rows` the check of one shard."""
