#!/bin/sh
# The main job from puzzle to SQL: build two datasets, train, evaluate, ask, look. Everything lies under ./trm.
set -eu
begun=$(date +%s)
step() {
  printf '\n\033[1m$'
  for word; do
    case $word in *[!A-Za-z0-9@.,/_=-]*) printf ' "%s"' "$word" ;; *) printf ' %s' "$word" ;; esac
  done
  printf '\033[0m\n'
  "$@"
}

step trm-data build sudoku --size 500 --aug 1000
step trm-data build sudoku --box 2x3 --size 500 --aug 1000 --val-size 200 --test-size 1000
step trm-data verify sudoku-2x3-generated-500-aug-1000
step trm-train run quickstart
step trm-eval run quickstart
step trm-eval sql @evals
step trm-eval sql "SELECT dataset, split, num_groups, num_examples FROM splits ORDER BY ALL"
step trm-eval show quickstart --count 2 --which guessing
printf '\nall of it took %s s\n' "$(($(date +%s) - begun))"
printf '\nto type these commands in this shell:\n  export PATH="%s:$PATH"\n' "$(dirname "$(command -v trm-data)")"
