"""Bundles: a run with the wheels that predict with it and a notebook, for machines without a network."""
