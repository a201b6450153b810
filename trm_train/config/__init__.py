"""What a run is, as frozen dataclasses that import no jax."""
