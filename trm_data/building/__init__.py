"""Build datasets: `flow` is the whole of it, `shard_job` one task, `estimate` what it would cost."""
