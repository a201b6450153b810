"""The ARC kind."""
