"""Sudoku: `kind` says what it is, `choose` picks puzzles, `check` distrusts rows, `draw` shows them."""
