"""Answers rows: selection of rows, ways to answer them, and selection among samples."""
