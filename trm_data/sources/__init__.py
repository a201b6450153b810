"""Sources of puzzles: files (local or any fsspec URL) and the Hugging Face hub, row by row with line numbers."""
