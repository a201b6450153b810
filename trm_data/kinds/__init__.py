"""The kinds of puzzles, one folder each."""
