"""Reports for people: `evaluation` for one evaluation, `study` for many runs."""
