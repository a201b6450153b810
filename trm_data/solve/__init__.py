"""Solvers: what a puzzle's solutions are, how many, and how hard it is to find them."""
