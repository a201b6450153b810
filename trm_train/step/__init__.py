"""What happens to one batch on the devices: `train`, `evaluate`, and their compilation."""
