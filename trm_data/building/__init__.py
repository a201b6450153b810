"""Build datasets: `flow` is the build, `shard_job` one task, `estimate` its cost."""
