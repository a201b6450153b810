"""Commands of `trm-data`, one module each."""
