#!/bin/sh
# A run of N steps with an optax schedule of N steps never uses its end value.
#
# Versions:  optax 0.2.8, jax 0.10.2.
# Behaviour: optax evaluates a schedule at the number of updates taken before, 0 to N - 1. The first update of a warm-up
#            from 0 uses 0 and changes nothing; the last of N updates is one step short of the end value.
# Guess:     update 1 uses the first value after the start, and update N the end value.
# Effect:    the first batch is lost, and the last update is larger than planned: here 0.1 instead of 0.
# Seen:      rates of 10 updates: 1.0 0.9 0.8 0.7 0.6 0.5 0.4 0.3 0.2 0.1; warm-up over 10 begins with 0.0
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check optax==0.2.8 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
"$tmp/venv/bin/python" - <<'EOF'
import sys
import jax.numpy as jnp
import optax


def used(schedule):
    optimizer, weight = optax.sgd(schedule), jnp.zeros(())
    state, rates = optimizer.init(weight), []
    for _ in range(10):
        change, state = optimizer.update(jnp.ones(()), state)
        rates.append(round(-float(change), 6))
    return rates


decay, warm_up = used(optax.linear_schedule(1.0, 0.0, 10)), used(optax.linear_schedule(0.0, 1.0, 10))
print("rates of 10 updates:", *decay, "; warm-up over 10 begins with", abs(warm_up[0]))
sys.exit(decay[-1] != 0.1 or warm_up[0] != 0)
EOF
