"""Runs on machines elsewhere: a TPU pod, Slurm, hosts with ssh. `flow` is the whole of it; a `Target` is where."""
