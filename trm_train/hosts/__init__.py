"""Several processes of one run: joining, comparing, barriers and failures."""
