"""Runs of a root: their records and status, and what is done with them."""
