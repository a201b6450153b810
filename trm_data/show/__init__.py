"""What a person sees: drawings of puzzles, tables and progress on the terminal, pictures."""
