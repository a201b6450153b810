"""Named experiments: each a function that returns a `RunConfig`, with a docstring that is its guide.

A file is a group. `load_experiments` imports them all and gives them by name; none imports jax.
"""
