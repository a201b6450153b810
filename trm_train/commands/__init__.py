"""Commands of `trm-train`, one dataclass each. Heavy imports are inside their methods."""
