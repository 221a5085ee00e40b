"""Benchmarks of Hone and its peers."""
