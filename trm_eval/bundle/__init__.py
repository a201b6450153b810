"""Bundles for machines without a network: a run, the wheels for prediction, and a notebook."""
