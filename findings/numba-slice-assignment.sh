#!/bin/sh
# A slice assignment makes numba compile 38 functions; the same loop compiles one.
#
# Versions:  numba 0.68.1.
# Behaviour: `a[:n] = b[:n]` may fail on shapes that differ, and its message is text that is made at run time. So numba
#            compiles its string formatting too: joins, integer to text, and their helpers.
# Guess:     it compiles to the same copy as a loop.
# Effect:    the first call waits seconds for each such line: here 2.1 s instead of 0.1 s.
# Seen:      loop 1 function, slice 38 functions
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check numba==0.68.1 numpy==2.4.6
"$tmp/venv/bin/python" - <<'EOF'
import sys
import numpy as np
from numba import njit
from numba.core import event


@njit
def by_loop(a, b, n):
    for i in range(n):
        a[i] = b[i]


@njit
def by_slice(a, b, n):
    a[:n] = b[:n]


counts = []
for function in (by_loop, by_slice):
    with event.install_recorder("numba:compile") as recorder:
        function(np.zeros(9), np.ones(9), 3)
    counts.append(len(recorder.buffer) // 2)
print(f"loop {counts[0]} function, slice {counts[1]} functions")
sys.exit(counts[0] != 1 or counts[1] < 20)
EOF
