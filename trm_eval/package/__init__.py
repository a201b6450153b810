"""Runs packed for sharing: a folder of plain files with weights, configuration, results, dataset recipe and card."""
