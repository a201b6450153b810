"""Keyed random draws: `draws` in numpy, `kernels` the same words in numba."""
