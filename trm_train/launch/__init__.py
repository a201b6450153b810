"""Runs on remote machines: `flow` launches them, a `Target` is a TPU pod or a set of ssh hosts."""
