"""How right a prediction is."""
