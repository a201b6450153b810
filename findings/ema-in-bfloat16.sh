#!/bin/sh
# An average of weights at rate 0.999 in bfloat16 stops half-way, or never moves.
#
# Versions:  optax 0.2.8, jax 0.10.2 on a CPU.
# Behaviour: `optax.ema(0.999, accumulator_dtype=bfloat16)` of a constant 1 from 0 stops at 0.5 and stays there. Written
#            as a difference (a + 0.001 (x - a)), an average at 1 never leaves 1 although x is 0. Adding 0.001 to it is
#            less than half the distance of its neighbours (2^-8 below 1, 2^-7 above).
# Guess:     bfloat16 adds noise of a percent to the average.
# Effect:    weights for the evaluation are wrong by half, in runs that train in float32.
# Seen:      after 10000 steps: optax.ema 0.5, difference 1.0, float32 0.99997 (exact 0.99995)
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check optax==0.2.8 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
"$tmp/venv/bin/python" - <<'EOF'
import sys
import jax
import jax.numpy as jnp
import optax

STEPS = 10_000
half, one = jnp.bfloat16, jnp.ones((), jnp.bfloat16)
average = optax.ema(0.999, debias=False, accumulator_dtype=half)
state, _ = jax.lax.scan(lambda s, _: (average.update(one, s)[1], None), average.init(one), None, length=STEPS)
stuck = jax.lax.scan(lambda a, _: (a + half(0.001) * (half(0) - a), None), one, None, length=STEPS)[0]
full = jax.lax.scan(lambda a, _: (0.999 * a + 0.001, None), jnp.zeros(()), None, length=STEPS)[0]
print(f"after {STEPS} steps: optax.ema {float(state.ema)}, difference {float(stuck)}, float32 {float(full):.5f} "
      f"(exact {1 - 0.999**STEPS:.5f})")
sys.exit((float(state.ema), float(stuck)) != (0.5, 1.0) or abs(float(full) - 1) > 1e-3)
EOF
