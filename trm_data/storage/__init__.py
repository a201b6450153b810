"""Storage: local folders and buckets behind one interface, and leases."""
