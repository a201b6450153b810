"""Generators: puzzles from a seed and a number."""
