"""Reports: `evaluation` for one evaluation, `study` for many runs."""
