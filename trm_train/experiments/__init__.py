"""Named experiments: each a function that returns a `RunConfig`, registered with its guide.

A file is a group, found by being here; `registry.load_experiments` gives all by name. None imports jax.
"""
