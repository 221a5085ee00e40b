"""Similarity of two texts."""

from typing import Any


def similarity(one: str, other: str) -> float:
    """Return the Jaccard similarity of the texts' word 3-grams (Broder 1997), in [0, 1].

    If a text has fewer than three words, it is 1 for equal words, else 0.
    """
    if one == other:
        return 1.0
    first, second = _shingles(one), _shingles(other)
    if not first or not second:
        return float(one.split() == other.split())
    return jaccard(first, second)


def jaccard(one: frozenset[Any], other: frozenset[Any]) -> float:
    """Return the size of the intersection over that of the union; 1 for two empty sets."""
    shared = len(one & other)
    held = len(one) + len(other) - shared
    return shared / held if held else 1.0


def _shingles(text: str) -> frozenset[tuple[str, str, str]]:
    words = text.split()
    return frozenset(zip(words, words[1:], words[2:], strict=False))
