"""Prompt requests and their words; one that a single strategy uses may be in its module."""
