"""Answering rows: their choice, the ways to answer them, and the choice among samples."""
