"""Commands of `trm-eval`, one module each."""
