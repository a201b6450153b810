#!/bin/sh
# XLA's cost analysis counts the body of a loop once.
#
# Versions:  jax 0.10.2 on a CPU.
# Behaviour: `compiled.cost_analysis()["flops"]` of ten products in `lax.scan` is that of one product; unrolled, it is ten.
# Guess:     the length of a scan is known when it is compiled, so its FLOPs are multiplied.
# Effect:    the utilisation of a recursive network, whose cycles are a loop, is reported too low by the number of cycles.
# Seen:      scan 8404993, unrolled 83902464: 1.0 and 10.0 times a product
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
"$tmp/venv/bin/python" - <<'EOF'
import sys
import jax
import jax.numpy as jnp


def scanned(weight, x):
    return jax.lax.scan(lambda x, _: (jnp.tanh(x @ weight), None), x, None, length=10)[0].sum()


def unrolled(weight, x):
    for _ in range(10):
        x = jnp.tanh(x @ weight)
    return x.sum()


shapes = jnp.ones((256, 256)), jnp.ones((64, 256))
flops = [jax.jit(f).lower(*shapes).compile().cost_analysis()["flops"] for f in (scanned, unrolled)]
shares = [count / (2 * 64 * 256 * 256) for count in flops]
print(f"scan {flops[0]:.0f}, unrolled {flops[1]:.0f}: {shares[0]:.1f} and {shares[1]:.1f} times a product")
sys.exit([round(share) for share in shares] != [1, 10])
EOF
