"""The result tables: their schemas, how they are written so that nothing half-written shows, how SQL reads them."""
