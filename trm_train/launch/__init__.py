"""Runs on machines elsewhere: `flow` is the launch, a `Target` is a TPU pod or hosts with ssh."""
