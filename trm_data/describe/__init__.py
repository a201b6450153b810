"""Describe datasets: `facts` gathers the numbers, `page` draws them as one HTML page."""
