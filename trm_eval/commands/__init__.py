"""The commands of `trm-eval`, a file each."""
