#!/bin/sh
# The bytes of a safetensors file differ from process to process if its metadata has several entries.
#
# Versions:  safetensors 0.8.0, numpy 2.4.6.
# Behaviour: entries of `metadata` are written in an order that each process draws for itself; one entry is always the same.
# Guess:     the same tensors and metadata give the same bytes, as the tensors are sorted.
# Effect:    a digest of the file says that weights differ which are equal; caches and checks by sha256 fail.
# Seen:      2 entries: 2 digests of 24 files; 1 entry: 1 digest
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check safetensors==0.8.0 numpy==2.4.6
cat > "$tmp/write.py" <<'EOF'
import hashlib
import json
import sys

import numpy as np
from safetensors.numpy import save

metadata = json.loads(sys.argv[1])
print(hashlib.sha256(save({"a": np.zeros(2, np.float32)}, metadata)).hexdigest())
EOF
write() { for i in $(seq 24); do "$tmp/venv/bin/python" "$tmp/write.py" "$1"; done | sort -u | wc -l; }
two=$(write '{"format": "pt", "step": "1"}')
one=$(write '{"format": "pt"}')
echo "2 entries: $two digests of 24 files; 1 entry: $one digest"
[ "$two" -eq 2 ] && [ "$one" -eq 1 ]
