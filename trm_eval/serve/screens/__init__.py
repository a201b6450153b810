"""The pages of the dashboard: what stands where, and nothing else; what is asked and drawn comes from above."""
