#!/bin/sh
# Two seeds of a reasoning-gym dataset share all items but one.
#
# Versions:  reasoning_gym 0.1.25.
# Behaviour: item i of a dataset with seed s is drawn from the seed s + i. So seed 1 gives the items of seed 0, shifted.
# Guess:     seed 0 for training and seed 1 for the test are independent.
# Effect:    a test set of another seed is in the training set. Seeds must differ by more than the size.
# Seen:      items of seed 1 that seed 0 has, of 50: mini_sudoku 49, sudoku 49, arc_1d 49, maze 49
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check reasoning_gym==0.1.25
"$tmp/venv/bin/python" - <<'EOF'
import sys
import reasoning_gym

seen = {}
for name in ("mini_sudoku", "sudoku", "arc_1d", "maze"):
    first, second = (
        {item["question"] for item in reasoning_gym.create_dataset(name, size=50, seed=seed)} for seed in (0, 1)
    )
    seen[name] = len(first & second)
print("items of seed 1 that seed 0 has, of 50:", ", ".join(f"{name} {count}" for name, count in seen.items()))
sys.exit(set(seen.values()) != {49})
EOF
