"""Output for people: drawings of puzzles, tables and progress on the terminal, pictures."""
