"""The commands of `trm-data`, one module each."""
