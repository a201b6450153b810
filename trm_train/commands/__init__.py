"""The commands of `trm-train`, a dataclass each; heavy imports happen inside them."""
