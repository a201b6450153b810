#!/bin/sh
# `decay_steps` of optax's warm-up schedule includes the warm-up.
#
# Versions:  optax 0.2.8, jax 0.10.2.
# Behaviour: `warmup_cosine_decay_schedule(warmup_steps=4, decay_steps=10)` warms up over 4 steps and decays over 6.
# Guess:     it warms up over 4 steps, then decays over 10.
# Effect:    a run of 14 steps trains its last 4 steps at the end value, here a rate of 0.
# Seen:      0.0 0.25 0.5 0.75 1.0 0.933 0.75 0.5 0.25 0.067 0.0 0.0 0.0 0.0
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check optax==0.2.8 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
"$tmp/venv/bin/python" - <<'EOF'
import sys
import optax

schedule = optax.warmup_cosine_decay_schedule(0.0, 1.0, warmup_steps=4, decay_steps=10, end_value=0.0)
rates = [round(float(schedule(step)), 3) for step in range(14)]
print(*rates)
sys.exit(rates[10:] != [0.0] * 4 or rates[9] <= 0)
EOF
