"""Puzzles as text, as grids of cell values, as tokens, and as stored blocks."""
