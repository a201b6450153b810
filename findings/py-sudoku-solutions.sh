#!/bin/sh
# Puzzles of py-sudoku have several solutions from medium difficulty on.
#
# Versions:  py-sudoku 2.0.0.
# Behaviour: `difficulty(d)` blanks a share d of the cells at random and does not look at the number of solutions.
# Guess:     a Sudoku generator gives puzzles with one solution, and `difficulty` says how hard they are.
# Effect:    with the generator's grid as the label, right answers are scored as wrong.
# Seen:      puzzles of 20 with one solution: difficulty 0.3 20, difficulty 0.5 9, difficulty 0.6 0
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check py-sudoku==2.0.0
"$tmp/venv/bin/python" - <<'EOF'
import sys
from sudoku import Sudoku


def solutions(board, limit=2):
    best = None
    for row in range(9):
        for column in range(9):
            if not board[row][column]:
                taken = {board[row][i] for i in range(9)} | {board[i][column] for i in range(9)}
                top, left = row // 3 * 3, column // 3 * 3
                taken |= {board[i][j] for i in range(top, top + 3) for j in range(left, left + 3)}
                free = [value for value in range(1, 10) if value not in taken]
                if best is None or len(free) < len(best[2]):
                    best = row, column, free
    if best is None:
        return 1
    row, column, free = best
    count = 0
    for value in free:
        board[row][column] = value
        count += solutions(board, limit - count)
        board[row][column] = 0
        if count >= limit:
            break
    return count


seen = {}
for difficulty in (0.3, 0.5, 0.6):
    boards = [Sudoku(3, seed=seed).difficulty(difficulty).board for seed in range(20)]
    seen[difficulty] = sum(solutions([[cell or 0 for cell in row] for row in board]) == 1 for board in boards)
print("puzzles of 20 with one solution:", ", ".join(f"difficulty {d} {count}" for d, count in seen.items()))
sys.exit(seen[0.3] != 20 or not 0 < seen[0.5] < 16 or seen[0.6] > 1)
EOF
