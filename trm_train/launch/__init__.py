"""Runs on TPUs of Google Cloud: `flow` launches them, `scripts` has what the machines run."""
