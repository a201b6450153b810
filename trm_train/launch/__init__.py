"""Runs on machines elsewhere: a TPU pod or hosts with ssh. `flow` is the whole of it; a `Target` is where."""
