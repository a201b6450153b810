"""From a built dataset to batches: `dataset` opens rows, `plan` says which rows a step has, `rows` gathers
them, `pipeline` runs that through Grain, or visits every row once for an evaluation."""
