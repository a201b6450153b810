"""Batches of runs: plan, devices, processes and summary."""
