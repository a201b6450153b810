"""Evaluation of a checkpoint: `flow` is the outline, `prepare` its start, `row` its result."""
