"""Compilation for absent machines: TPU slices and NVIDIA GPUs."""
