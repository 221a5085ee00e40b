"""Data that API, workers and clients agree on. Nothing here does I/O."""
