"""The versions of the engine: the order of moves, and the drafts and findings that they are given.

docs/extending.md says which changes need a new version.
"""

ENGINE_VERSION = 3
"""The version that new refinements are made for; a record without one is of version 1."""

PLAYABLE = frozenset({1, ENGINE_VERSION - 1, ENGINE_VERSION})
"""The versions that this release can play: its own, the one before, that of the last release."""
