"""The kind of imported rows."""
