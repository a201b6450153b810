"""Machines that a step is compiled for without having them: TPU slices and NVIDIA GPUs."""
