"""Noisy critics and revisers, and texts of known quality: what a policy is really worth."""
