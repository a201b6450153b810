"""What a person reads of results: `evaluation` of one evaluation, `study` of many runs."""
