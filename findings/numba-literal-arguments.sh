#!/bin/sh
# Numba compiles a function again for every literal integer that a compiled caller passes.
#
# Versions:  numba 0.68.1.
# Behaviour: `inner(x, 1)` and `inner(x, 2)` in a compiled function compile `inner` for Literal[int](1) and
#            Literal[int](2), besides the version for int64. `np.int64(1)` as argument avoids it.
# Guess:     an integer constant is an int64, and one compiled version serves all callers.
# Effect:    a first run compiles the same search two or three times; each copy is also inlined and cached by itself.
# Seen:      with literals 2 versions, with np.int64 1 version
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check numba==0.68.1 numpy==2.4.6
"$tmp/venv/bin/python" - <<'EOF'
import sys
import numpy as np
from numba import njit


@njit
def inner(x, k):
    return x + k


@njit
def again(x, k):
    return x - k


@njit
def literals(x):
    return inner(x, 1) * inner(x, 2)


@njit
def typed(x):
    return again(x, np.int64(1)) * again(x, np.int64(2))


literals(3), typed(3)
print(f"with literals {len(inner.signatures)} versions, with np.int64 {len(again.signatures)} version")
sys.exit((len(inner.signatures), len(again.signatures)) != (2, 1))
EOF
