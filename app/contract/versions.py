"""The versions of the engine: the order of moves, and the drafts and findings that they are given.

CONTRIBUTING.md says which changes need a new version.
"""

ENGINE_VERSION = 5
"""The version that new refinements are made for. Numbers are never used twice."""

PLAYABLE = frozenset({ENGINE_VERSION})
"""The versions that this release can play."""
