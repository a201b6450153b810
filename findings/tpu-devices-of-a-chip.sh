#!/bin/sh
# The number of jax devices of a TPU chip is 2 for v4 and TPU7x and 1 for v5p, v5e and v6e, when compiled without a device.
#
# Versions:  jax 0.10.2, libtpu 0.0.42.1. Compiled descriptions; nothing runs on a TPU.
# Behaviour: `get_topology_desc("v4:2x2x1")` has 8 devices for 4 chips, "v5p:2x2x1" has 4, "tpu7x:2x2x1" has 8. On a real
#            v4 a chip is one device (megacore); the description needs `chip_config_name="megacore"` to say so.
# Guess:     the shape names chips, and v4 and v5p chips (two cores each) have one device each.
# Effect:    a program compiled for "v4:4x4x2" is one for 64 devices with half the memory each, not for the 32 of a v4-64.
# Seen:      v4 8, v4 megacore 4, v5p 4, v5e 4, v6e 4, tpu7x 8
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check libtpu==0.0.42.1 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
"$tmp/venv/bin/python" - <<'EOF'
import os
import sys

os.environ |= {"TPU_SKIP_MDS_QUERY": "1", "JAX_PLATFORMS": "cpu"}
from jax.experimental import topologies

NAMES = {
    "v4": ("v4:2x2x1", {}),
    "v4 megacore": ("v4:2x2x1", {"chip_config_name": "megacore"}),
    "v5p": ("v5p:2x2x1", {}),
    "v5e": ("v5e:2x2", {}),
    "v6e": ("v6e:2x2", {}),
    "tpu7x": ("tpu7x:2x2x1", {}),
}
seen = {
    name: len(topologies.get_topology_desc(shape, platform="tpu", **options).devices)
    for name, (shape, options) in NAMES.items()
}
print(", ".join(f"{name} {count}" for name, count in seen.items()))
sys.exit(list(seen.values()) != [8, 4, 4, 4, 4, 8])
EOF
