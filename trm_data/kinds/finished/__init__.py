"""The kind of finished rows that were made elsewhere."""
