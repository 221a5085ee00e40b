"""Refinements through servers that are not ours; they are no part of the tests (`make interop`)."""
