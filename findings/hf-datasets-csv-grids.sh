#!/bin/sh
# Hugging Face datasets reads the grids of a CSV file as numbers.
#
# Versions:  datasets 5.0.0 with pandas 3.1.1 and pyarrow 26.0.1 (pandas 2.3.3 reads the solution as text).
# Behaviour: `load_dataset("csv")` infers the type of a column. A 4x4 puzzle with 0 for a blank becomes an int64, without
#            its leading zeros. An 81-digit solution does not fit an integer, and the loading of the whole file fails.
# Guess:     a column of 16 or 81 characters is text.
# Effect:    puzzles that begin with a blank are shorter; the published form of 9x9 Sudoku (question, answer) is not
#            readable without `features`.
# Seen:      4x4: {'question': 204300200104030, 'answer': 1234341223414123}; 9x9: OverflowError; 9x9 with features: str of 81
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check datasets==5.0.0 pandas==3.1.1 pyarrow==26.0.1
cd "$tmp"
HF_HOME="$tmp/home" HF_DATASETS_DISABLE_PROGRESS_BARS=1 "$tmp/venv/bin/python" - <<'EOF'
import sys
from pathlib import Path

from datasets import Features, Value, load_dataset

nine = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
Path("four.csv").write_text("question,answer\n0204300200104030,1234341223414123\n")
Path("nine.csv").write_text(f"question,answer\n{'.' * 40}{nine[40:]},{nine}\n")

four = load_dataset("csv", data_files="four.csv", split="train")[0]
try:
    failed = repr(load_dataset("csv", data_files="nine.csv", split="train")[0])
except Exception as error:
    failed = type(error.__cause__).__name__
text = Value("string")
features = Features({"question": text, "answer": text})
answer = load_dataset("csv", data_files="nine.csv", split="train", features=features)[0]["answer"]
kind = f"{type(answer).__name__} of {len(answer)}"
print(f"4x4: {four}; 9x9: {failed}; 9x9 with features: {kind}")
expected = ({"question": 204300200104030, "answer": 1234341223414123}, "OverflowError", "str of 81")
sys.exit((four, failed, kind) != expected)
EOF
