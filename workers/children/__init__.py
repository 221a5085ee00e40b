"""Processes for work that may take too long, and turns for those who wait for them."""
