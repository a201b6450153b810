#!/bin/sh
# A mixture of Grain datasets ends when the first of them does.
#
# Versions:  grain 0.2.18.
# Behaviour: `MapDataset.mix` of 10 and 3 elements with equal weights has 6 elements; 7 of the larger set never occur.
#            Repeated components (`.repeat()`) remove the end.
# Guess:     an epoch of a mixture has every element of its parts once.
# Effect:    a small auxiliary dataset cuts an epoch of the large one short, without a message.
# Seen:      6 elements: 0 100 1 101 2 102
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check grain==0.2.18 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
"$tmp/venv/bin/python" - <<'EOF'
import sys
import grain

mixed = grain.MapDataset.mix([grain.MapDataset.range(10), grain.MapDataset.range(100, 103)], weights=[0.5, 0.5])
seen = [int(mixed[i]) for i in range(len(mixed))]
print(len(seen), "elements:", *seen)
sys.exit(seen != [0, 100, 1, 101, 2, 102])
EOF
