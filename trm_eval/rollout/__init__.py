"""How rows are answered: a fixed number of supervision steps, halting as in training, or several samples a row."""
