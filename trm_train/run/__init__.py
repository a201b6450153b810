"""One training run, from its name to its last step: `loop` is the whole of it."""
