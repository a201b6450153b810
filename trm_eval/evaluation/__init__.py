"""Evaluating a checkpoint: `flow` is the outline, `prepare` what it needs first, `row` what it says in the end."""
