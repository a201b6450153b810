"""What happens to one batch on the devices: `train` and its compilation."""
