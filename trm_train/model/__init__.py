"""The network: layers, mixing over positions, embeddings, recursion, the carry and halting."""
