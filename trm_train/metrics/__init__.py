"""Metrics as sums and counts: `sums` on the devices, `table` on disk."""
