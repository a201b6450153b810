"""The configuration of a run: frozen dataclasses that import no jax."""
