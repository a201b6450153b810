#!/bin/sh
# Orbax's manager with `best_fn` deletes the newest checkpoint as soon as it is written.
#
# Versions:  orbax-checkpoint 0.12.8, jax 0.10.2.
# Behaviour: with `max_to_keep=2` and `best_fn`, the two best steps stay. A later, worse step is deleted after its save;
#            `latest_step()` then names an old one.
# Guess:     the latest checkpoint always stays, since a run resumes from it.
# Effect:    a preempted run resumes from its best step, perhaps hours before; with an overfitting run it never advances.
# Seen:      saved 1 (0.9), 2 (0.8), 3 (0.1), 4 (0.2): steps [1, 2], latest 2
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check orbax-checkpoint==0.12.8 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
"$tmp/venv/bin/python" - <<'EOF'
import logging
import sys
import tempfile
import numpy as np
import orbax.checkpoint as ocp

logging.disable(logging.WARNING)
options = ocp.CheckpointManagerOptions(
    max_to_keep=2, best_fn=lambda metrics: metrics["accuracy"], best_mode="max", enable_async_checkpointing=False
)
scores = {1: 0.9, 2: 0.8, 3: 0.1, 4: 0.2}
with ocp.CheckpointManager(tempfile.mkdtemp(), options=options) as manager:
    for step, score in scores.items():
        manager.save(step, args=ocp.args.StandardSave({"x": np.arange(3)}), metrics={"accuracy": score})
    steps, latest = list(manager.all_steps()), manager.latest_step()
print("saved", ", ".join(f"{step} ({score})" for step, score in scores.items()) + f": steps {steps}, latest {latest}")
sys.exit(steps != [1, 2] or latest != 2)
EOF
