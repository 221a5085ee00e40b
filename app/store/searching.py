"""Finds refinements by what their texts contain.

Redis keeps a signature of each ended refinement: a bit for every three characters that follow each
other in its texts (signature files; Faloutsos and Christodoulakis, 1984). A script passes over
those that lack a bit of what is sought; the texts of the others are read. What has no signature, as
it has not ended, is read as well.
"""

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from zlib import crc32

from pydantic_core import from_json

from app.store.redis.codec import Summary

GRAM = 3
BITS = 4
"""Bits of a signature for each gram: a fifth of them is set, so that a word of six letters is seen
in one of 400 texts that lack it."""

MOST_BYTES = 8_192
"""Bytes of a signature at most."""

SHOWN = (b"excerpt", b"metadata", b"custom_id")
"""Fields of a summary that lists show, and that can be found of archived refinements too."""


def folded(text: str) -> str:
    """Return a text as it is compared: without case, compatible characters alike (NFKC)."""
    return unicodedata.normalize("NFKC", text).casefold()


def signature(texts: Iterable[str]) -> bytes:
    """Return the signature of texts."""
    grams = {gram for text in texts for gram in _grams(folded(text))}
    bits = bytearray(min(len(grams) * BITS // 8 + 1, MOST_BYTES))
    for gram in grams:
        place = crc32(gram.encode()) % (len(bits) * 8)
        bits[place >> 3] |= 1 << (place & 7)
    return bytes(bits)


def _grams(text: str) -> Iterator[str]:
    return (text[at : at + GRAM] for at in range(len(text) - GRAM + 1))


def shown_texts(refinement_id: str, summary: Summary) -> Iterator[str]:
    """Yield what a list shows of a refinement, as it is stored."""
    yield refinement_id
    for name in SHOWN:
        found = summary.get(name)
        if found is not None:
            yield from _strings(from_json(found))


def stored_texts(request: bytes, result: bytes | None) -> Iterator[str]:
    """Yield the texts of a request and its result, as they are stored."""
    asked, found = from_json(request), from_json(result or b"null") or {}
    if asked.get("store", True):
        kept = [asked.get("task"), asked.get("draft"), found.get("draft"), found.get("outputs")]
        yield from _strings(kept)


def _strings(stored: Any) -> Iterator[str]:
    """Yield the texts in JSON, those of an object with their names."""
    if isinstance(stored, str):
        yield stored
    elif isinstance(stored, dict):
        for key, inner in stored.items():
            yield from (f"{key}={text}" for text in _strings(inner))
    elif isinstance(stored, list):
        for inner in stored:
            yield from _strings(inner)


@dataclass(frozen=True)
class Sought:
    """Words that a refinement must contain, each anywhere in its texts."""

    words: tuple[str, ...]

    @classmethod
    def of(cls, query: str | None) -> "Sought | None":
        """Return what a query asks for; None if it has no word."""
        words = tuple(folded(query or "").split())
        return cls(words) if words else None

    @cached_property
    def hashes(self) -> tuple[int, ...]:
        """What signatures are compared with."""
        return tuple({crc32(gram.encode()) for word in self.words for gram in _grams(word)})

    def are_in(self, texts: Iterable[str]) -> bool:
        """Return whether each word is in one of the texts."""
        text = "\n".join(map(folded, texts))
        return all(word in text for word in self.words)
