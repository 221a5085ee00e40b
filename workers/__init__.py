"""The worker process: plays strategies against models, and journals every step."""
