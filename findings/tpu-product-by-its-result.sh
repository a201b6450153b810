#!/bin/sh
# TPU compilers estimate a product over 32 features at the cycles of one over 256, and a bfloat16 result above a float32 one.
#
# Versions:  jax 0.10.2, libtpu 0.0.42.1. Compiler estimates (`estimated_cycles`) of x [98304, K] @ w [K, 512] in bfloat16;
#            nothing runs on a TPU.
# Behaviour: from K 32 to K 256 the estimate does not change: the result of 98304 x 512 numbers bounds it. With
#            `preferred_element_type=float32` it is a third lower, although twice the bytes are written: narrowing the result
#            costs more than writing it.
# Guess:     an eighth of the features takes an eighth of the cycles, and a result of half the bytes is the cheaper one.
# Effect:    token mixing over 97 positions costs as much as over 256; a narrower mixing width saves only what shrinks the result.
# Seen:      M cycles, K 32 and 256 in bfloat16, then in float32:
#            v4 0.34 0.34 0.23 0.23, v5e 0.67 0.68 0.47 0.47, v6e 0.36 0.36 0.25 0.25
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check libtpu==0.0.42.1 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
"$tmp/venv/bin/python" - <<'EOF'
import os
import re
import sys

os.environ |= {"TPU_SKIP_MDS_QUERY": "1", "JAX_PLATFORMS": "cpu"}
import jax
import jax.numpy as jnp
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

SHAPES = {"v4": ("v4:2x2x1", {"chip_config_name": "megacore"}), "v5e": ("v5e:2x2", {}), "v6e": ("v6e:2x2", {})}


def cycles(chip, features, result):
    """Return the estimate of one product in millions."""
    x, w = (
        jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=SingleDeviceSharding(chip))
        for shape in ((98_304, features), (features, 512))
    )
    product = jax.jit(lambda x, w: jnp.dot(x, w, preferred_element_type=result))
    text = product.lower(x, w).compile().as_text()
    return sum(int(number) for number in re.findall(r'"estimated_cycles":"(\d+)"', text)) / 1e6


as_seen = True
for name, (shape, options) in SHAPES.items():
    chip = topologies.get_topology_desc(shape, platform="tpu", **options).devices[0]
    seen = [cycles(chip, features, result) for result in (jnp.bfloat16, jnp.float32) for features in (32, 256)]
    print(name, " ".join(f"{millions:.2f}" for millions in seen))
    as_seen &= seen[1] < 1.05 * seen[0] and seen[3] < 1.05 * seen[2] and 1.3 < seen[0] / seen[2] < 1.6
sys.exit(not as_seen)
EOF
