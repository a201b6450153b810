"""Training of a run: from the checks before the first step to the last checkpoint."""
