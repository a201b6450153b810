"""The Sudoku kind."""
