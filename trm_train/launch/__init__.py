"""Runs on TPUs of Google Cloud: `flow` launches them, `tpu` has the machines."""
