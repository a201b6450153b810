#!/bin/sh
# The sum of XLA's memory figures counts donated arrays twice.
#
# Versions:  jax 0.10.2 on a CPU.
# Behaviour: `memory_analysis()` gives a donated array as an argument, as an output and as `alias_size_in_bytes`. What is
#            held is arguments + outputs + temporaries - aliases.
# Guess:     arguments + outputs + temporaries is what the program needs.
# Effect:    a training step that donates its state seems to need its state twice, and is refused or microbatched.
# Seen:      arguments 1048576, outputs 1048576, aliases 1048576: sum 2.0, held 1.0 times the array
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
"$tmp/venv/bin/python" - <<'EOF'
import sys
import jax
import jax.numpy as jnp

array = jnp.ones((512, 512))
memory = jax.jit(lambda x: x + 1, donate_argnums=0).lower(array).compile().memory_analysis()
given, made, shared = (
    memory.argument_size_in_bytes, memory.output_size_in_bytes, memory.alias_size_in_bytes
)
total = (given + made) / array.nbytes
held = total - shared / array.nbytes
print(f"arguments {given}, outputs {made}, aliases {shared}: sum {total}, held {held} times the array")
sys.exit((total, held) != (2.0, 1.0))
EOF
