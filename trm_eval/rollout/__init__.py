"""How rows are answered: which rows, the ways to answer them, and which of several samples counts."""
