#!/bin/sh
# A draw of jax.random begins with the draw of a smaller shape, but only along the first axis.
#
# Versions:  jax 0.10.2 on a CPU (jax_threefry_partitionable is on).
# Behaviour: element i of a flat draw depends on the key and i, not on the size. So normal(key, (8, 3))[:4] is
#            normal(key, (4, 3)), and split(key, 8)[:4] is split(key, 4). Columns of a wider draw are others.
# Guess:     another shape gives other numbers; or, where it is known, that any corner of a draw is stable.
# Effect:    noise for 32 samples begins with that for 8 if samples are the first axis, and not if they are the last;
#            keys split for a larger ensemble begin with those of the smaller one, whose members are not new.
# Seen:      rows True, columns False, keys True
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
"$tmp/venv/bin/python" - <<'EOF'
import sys
import jax

key = jax.random.key(0)
rows = bool((jax.random.normal(key, (8, 3))[:4] == jax.random.normal(key, (4, 3))).all())
columns = bool((jax.random.normal(key, (4, 8))[:, :3] == jax.random.normal(key, (4, 3))).all())
keys = bool((jax.random.split(key, 8)[:4] == jax.random.split(key, 4)).all())
print(f"rows {rows}, columns {columns}, keys {keys}")
sys.exit((rows, columns, keys) != (True, False, True))
EOF
