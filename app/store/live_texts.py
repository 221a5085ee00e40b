"""Texts while models write them: pieces from the workers, and how far each watcher has read.

Nothing of it is stored. A piece says from which character on it replaces the text of its step, so
that a text can begin anew. A watcher takes what is new to it when it can send: a slow one takes
longer pieces less often, and nothing is queued for it.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from pydantic_core import from_json, to_json

from app.contract.events import StepDelta
from app.store.wakeups import ChangeSignal

WHOLE = "+"
"""Before an id: its texts are wanted from their beginning."""


def encode_watched(ids: Iterable[str], behind: Iterable[str]) -> str:
    """Return the message that these are watched, and that those `behind` need whole texts."""
    missing = set(behind)
    return " ".join(
        f"{WHOLE}{refinement_id}" if refinement_id in missing else refinement_id
        for refinement_id in ids
    )


def decode_watched(message: str) -> dict[str, bool]:
    """Return the ids of such a message, and for each whether whole texts are needed."""
    return {word.removeprefix(WHOLE): word.startswith(WHOLE) for word in message.split(" ")}


def encode_piece(refinement_id: str, key: str, offset: int, text: str | None) -> bytes:
    """Return the message of a piece; without a text the step is no longer written."""
    return to_json([refinement_id, key, offset, text])


@dataclass(eq=False)
class TextCursor:
    """How far one watcher has read the texts of a refinement."""

    _texts: dict[str, str]
    changed: ChangeSignal
    _read: dict[str, int] = field(default_factory=dict)
    _over: set[str] = field(default_factory=set)

    def take(self) -> tuple[StepDelta, ...]:
        """Return what is new, and count it as read."""
        found = []
        for key, text in self._texts.items():
            offset = self._read.get(key, 0)
            if offset < len(text) and key not in self._over:
                found.append(StepDelta(key=key, offset=offset, text=text[offset:]))
                self._read[key] = len(text)
        return tuple(found)

    def end(self, key: str) -> None:
        """Drop the text of a step that has ended, and skip it until the step begins anew."""
        self._texts.pop(key, None)
        self._over.add(key)

    def replaced(self, key: str, offset: int) -> None:
        """Note that a text was replaced from `offset` on."""
        self._read[key] = min(self._read.get(key, 0), offset)
        if offset == 0:
            self._over.discard(key)
        self.changed.set()


class LiveTexts:
    """The texts of all refinements that somebody watches in this process."""

    def __init__(self) -> None:
        self.has_news = ChangeSignal()
        """Set when there is something to announce, or nothing any more."""
        self._behind: set[str] = set()
        self._texts: dict[str, dict[str, str]] = {}
        self._cursors: dict[str, set[TextCursor]] = {}

    @property
    def watched(self) -> list[str]:
        """The ids of these refinements."""
        return list(self._cursors)

    @asynccontextmanager
    async def watch(self, refinement_id: str, changed: ChangeSignal) -> AsyncIterator[TextCursor]:
        """Yield a cursor at the beginning of each text; `changed` is set with every piece."""
        texts = self._texts.setdefault(refinement_id, {})
        cursors = self._cursors.setdefault(refinement_id, set())
        if not cursors:
            self._lacks(refinement_id)
        cursor = TextCursor(texts, changed)
        cursors.add(cursor)
        try:
            yield cursor
        finally:
            cursors.discard(cursor)
            if not cursors:
                del self._cursors[refinement_id], self._texts[refinement_id]
                self._behind.discard(refinement_id)
                self.has_news.set()

    def take_behind(self) -> set[str]:
        """Return the refinements of whose texts the beginning is missing, once."""
        behind, self._behind = self._behind, set()
        return behind

    def receive(self, message: bytes) -> None:
        """Apply a piece, unless the text before it is missing."""
        refinement_id, key, offset, text = from_json(message)
        texts = self._texts.get(refinement_id)
        if texts is None:
            return
        before = texts.get(key, "")
        if text is None:
            texts.pop(key, None)
        elif offset > len(before):
            self._lacks(refinement_id)
        else:
            texts[key] = before[:offset] + text
            for cursor in self._cursors[refinement_id]:
                cursor.replaced(key, offset)

    def _lacks(self, refinement_id: str) -> None:
        self._behind.add(refinement_id)
        self.has_news.set()
