"""Optimizers: AdamATan2 for the network, sign-SGD for puzzle-embedding rows, their schedule, and the EMA."""
