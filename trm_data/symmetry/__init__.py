"""Augmentation: symmetry groups whose elements are values."""
