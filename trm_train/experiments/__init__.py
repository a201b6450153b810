"""Named experiments: functions that return a `RunConfig`, registered with a guide.

Every file of this folder is a group; `registry.load_experiments` returns all experiments by name. None imports jax.
"""
