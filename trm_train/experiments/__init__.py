"""Named experiments: each a function that returns a `RunConfig`, with a docstring that is its guide.

A file is a group. `registry.load_experiments` imports those in its `GROUPS` and gives them by name; none imports jax.
"""
