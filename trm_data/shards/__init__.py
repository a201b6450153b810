"""ArrayRecord shards: names, writing, reading and checking."""
