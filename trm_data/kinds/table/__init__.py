"""The kind of a user's own tables of puzzles."""
