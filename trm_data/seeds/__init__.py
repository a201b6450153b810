"""Random draws keyed by what they are for: `draws` in numpy, `kernels` the same words in numba."""
