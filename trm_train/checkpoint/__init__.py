"""Training states on disk, verified when they are read back."""
