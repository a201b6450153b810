"""Where puzzles come from: files (local or any fsspec URL), the Hugging Face hub; row by row, with line numbers."""
