"""Sharding of state and batches over devices."""
