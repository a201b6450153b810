"""The commands of `trm-data`: `build` makes datasets, `look` reads them, `care` checks, moves and removes them."""
