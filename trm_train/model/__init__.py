"""The network: layers, mixing over positions, embeddings, recursion, carry and halting."""
