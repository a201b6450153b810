"""SQL and dataset specifications that ship with the packages: data, no code."""
