"""Runs packed for others: a folder of plain files with weights, configuration, results, recipe of the data, a card."""
