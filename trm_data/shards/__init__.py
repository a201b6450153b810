"""ArrayRecord shards: what they are called, how one is written whole, how one is read and checked."""
