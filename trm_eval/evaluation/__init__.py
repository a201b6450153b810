"""Evaluation of a checkpoint: `flow` is the outline, `prepare` the preparation, `row` the result."""
