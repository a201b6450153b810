"""Training states on disk, with proof that they are what was saved."""
