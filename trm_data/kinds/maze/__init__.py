"""The Maze kind."""
