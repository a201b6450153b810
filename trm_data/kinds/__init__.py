"""The kinds of puzzles. A kind is one module that knows everything particular to it."""
