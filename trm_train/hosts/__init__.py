"""Several processes of one run: joining, comparison, barriers and failures."""
