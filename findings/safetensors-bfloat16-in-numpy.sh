#!/bin/sh
# Whether safetensors reads bfloat16 into numpy depends on what else the process has imported.
#
# Versions:  safetensors 0.8.0, numpy 2.4.6, ml_dtypes 0.5.4.
# Behaviour: `safe_open(path, "numpy")` raises TypeError for a bfloat16 tensor, until `ml_dtypes` is imported.
# Guess:     it reads it wherever ml_dtypes is installed, or never.
# Effect:    a reader of published weights works beside jax, which imports ml_dtypes, and fails in a script without jax.
# Seen:      before the import: TypeError, after it: bfloat16
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check safetensors==0.8.0 numpy==2.4.6 ml_dtypes==0.5.4
"$tmp/venv/bin/python" - "$tmp/a.safetensors" <<'EOF'
import json
import sys

from safetensors import safe_open

header = json.dumps({"a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
header += b" " * (-len(header) % 8)
with open(sys.argv[1], "wb") as file:
    file.write(len(header).to_bytes(8, "little") + header + bytes.fromhex("803f20c0"))


def kind() -> str:
    try:
        with safe_open(sys.argv[1], "numpy") as file:
            return file.get_tensor("a").dtype.name
    except TypeError as error:
        return type(error).__name__


before = kind()
import ml_dtypes  # noqa: E402

after = kind()
print(f"before the import: {before}, after it: {after}")
sys.exit((before, after) != ("TypeError", "bfloat16"))
EOF
