"""Where the independent tasks of a build run."""
