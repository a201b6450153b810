"""How state and batches lie over devices."""
