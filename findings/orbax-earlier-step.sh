#!/bin/sh
# Orbax does not save a step that is not above the latest one, and raises nothing.
#
# Versions:  orbax-checkpoint 0.12.8, jax 0.10.2.
# Behaviour: `CheckpointManager.save` returns False for a step below or equal to the latest one, and writes nothing.
# Guess:     it replaces the step, writes it beside the others, or raises StepAlreadyExistsError.
# Effect:    a run that goes back to an earlier checkpoint and trains on saves nothing until it passes its old end.
# Seen:      save 10 True, save 20 True, save 15 False, save 20 False, steps [10, 20]
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
options = ocp.CheckpointManagerOptions(enable_async_checkpointing=False)
with ocp.CheckpointManager(tempfile.mkdtemp(), options=options) as manager:
    saved = [(step, manager.save(step, args=ocp.args.StandardSave({"x": np.arange(3)}))) for step in (10, 20, 15, 20)]
    steps = list(manager.all_steps())
print(", ".join(f"save {step} {done}" for step, done in saved) + f", steps {steps}")
sys.exit([done for _, done in saved] != [True, True, False, False] or steps != [10, 20])
EOF
