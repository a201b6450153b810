"""Where files lie, and who may write them: local folders and buckets, behind one interface."""
