"""Simulates noisy critics and revisers on texts of known quality, to compare policies."""
