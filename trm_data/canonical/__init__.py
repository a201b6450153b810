"""Canonical forms: one name for all puzzles that are images of one another."""
