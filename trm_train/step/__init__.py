"""Steps on the devices: `train`, `evaluate`, and their compilation."""
