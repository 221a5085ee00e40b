"""Prompt requests and their words; one that a single strategy makes may stand in its module."""
