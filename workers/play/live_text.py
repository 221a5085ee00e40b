"""Publishes the texts that models are writing, while clients watch them.

Without watchers nothing is sent and no timer runs. Ten times a second at most, one text of a
refinement that has grown is published; several side by side take turns. Thinking is withheld, and
so is what stands outside of the marks that a text was asked for between.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Self

from workers.engine.replies.texts import begun_in, without_half_a_mark

log = logging.getLogger(__name__)

EVERY_S = 0.1
WATCHED_FOR_S = 15.0
"""How long an announcement counts: three times as long as the API takes to repeat it."""

THINKING = re.compile(r"\A\s*<(think|thinking|reasoning|thought)>.*?(</\1>\s*|\Z)", re.DOTALL)
THOUGHT = re.compile(r"\A.*</(?:think|thinking|reasoning|thought)>\s*", re.DOTALL)
HALF_A_TAG = re.compile(r"<(?:/?[a-z]{0,9})?\Z")
UNMARKED_AFTER = 200
"""Characters without a mark after which a model is taken for one that writes none."""

Publish = Callable[[str, str, int, str | None], "asyncio.Future[Any]"]
"""Sends a piece: id, key, offset, and the text from there, or None at the end of the step."""


def visible_text(text: str, mark: str | None = None) -> str:
    """Return a text without what its model thought, and without the beginning of a tag at its end.

    A closing tag alone ends thinking too: some servers leave the opening one in the prompt. Of a
    text that was asked for between marks, only what stands there is shown.
    """
    is_tagged = "<" in text
    bare = THINKING.sub("", text) if is_tagged else text
    if mark is not None and (inside := begun_in(bare, mark)) is not None:
        return inside
    bare = THOUGHT.sub("", bare) if is_tagged else bare
    if mark is None:
        return HALF_A_TAG.sub("", bare)
    return without_half_a_mark(bare) if len(bare) > UNMARKED_AFTER else ""


class PublishedText:
    """The text of one call, and what was published of it: until its context ends."""

    def __init__(
        self, publisher: "TextPublisher", refinement_id: str, key: str, mark: str | None
    ) -> None:
        self.sent = ""
        self.is_known = False
        """Whether anything of it was ever published."""
        self._publisher = publisher
        self._refinement_id = refinement_id
        self._key = key
        self._mark = mark
        self._text: Callable[[], str] = str

    @property
    def is_watched(self) -> bool:
        """Whether somebody watches the refinement now."""
        return self._publisher.is_watched(self._refinement_id)

    def __enter__(self) -> Self:
        self._publisher.started(self._refinement_id, self._key, self)
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        is_taken_back = error is not None and self.is_known
        self._publisher.ended(self._refinement_id, self._key, is_taken_back=is_taken_back)

    def follow(self, text: Callable[[], str]) -> None:
        """Publish from now on what `text` returns."""
        self._text = text
        self._publisher.schedule(self._refinement_id)

    def news(self) -> tuple[int, str] | None:
        """Return offset and text of what is new, None if nothing is."""
        now = visible_text(self._text(), self._mark)
        if not now.startswith(self.sent):
            self.sent = ""
        offset = len(self.sent)
        if offset == len(now):
            return None
        self.sent, self.is_known = now, True
        return offset, now[offset:]


class TextPublisher:
    """The texts that the calls of this worker are writing."""

    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._loop = asyncio.get_running_loop()
        self._watched_until: dict[str, float] = {}
        self._forget_at = 0.0
        self._writing: dict[str, dict[str, PublishedText]] = {}
        self._ticking: set[str] = set()
        self._under_way: dict[str, asyncio.Future[Any]] = {}

    def watched(self, ids: Mapping[str, bool]) -> None:
        """Take an announcement: what is watched, and whether texts are needed from their start."""
        now = self._loop.time()
        if now > self._forget_at:
            self._watched_until = {key: at for key, at in self._watched_until.items() if at > now}
            self._forget_at = now + WATCHED_FOR_S
        for refinement_id, needs_whole in ids.items():
            self._watched_until[refinement_id] = now + WATCHED_FOR_S
            for text in self._writing.get(refinement_id, {}).values() if needs_whole else ():
                text.sent = ""
            self.schedule(refinement_id)

    def writing(self, refinement_id: str, key: str, mark: str | None = None) -> PublishedText:
        """Publish the text that is followed in its context, if somebody watches.

        `mark` is the number of the marks between which it was asked for.
        Where the call fails it is taken back; else the event of its step ends it.
        """
        return PublishedText(self, refinement_id, key, mark)

    def started(self, refinement_id: str, key: str, text: PublishedText) -> None:
        """Learn that a text is being written from now on."""
        self._writing.setdefault(refinement_id, {})[key] = text

    def ended(self, refinement_id: str, key: str, *, is_taken_back: bool) -> None:
        """Learn that a text has ended."""
        texts = self._writing[refinement_id]
        del texts[key]
        if not texts:
            del self._writing[refinement_id]
        if is_taken_back:
            self._send(refinement_id, key, 0, None)

    def is_watched(self, refinement_id: str) -> bool:
        """Return whether somebody watches a refinement now."""
        return self._watched_until.get(refinement_id, 0.0) > self._loop.time()

    def schedule(self, refinement_id: str) -> None:
        """Begin to publish what grows of a refinement, if somebody watches it."""
        if refinement_id in self._ticking or refinement_id not in self._writing:
            return
        if self.is_watched(refinement_id):
            self._ticking.add(refinement_id)
            self._loop.call_later(EVERY_S, self._tick, refinement_id)

    def _tick(self, refinement_id: str) -> None:
        """Publish one text that has grown, unless Redis has not answered the last piece yet."""
        self._ticking.discard(refinement_id)
        texts = self._writing.get(refinement_id, {})
        for key, text in texts.items() if refinement_id not in self._under_way else ():
            if news := text.news():
                self._send(refinement_id, key, *news)
                texts[key] = texts.pop(key)  # the others come first next time
                break
        self.schedule(refinement_id)

    def _send(self, refinement_id: str, key: str, offset: int, text: str | None) -> None:
        def sent(answer: asyncio.Future[Any]) -> None:
            self._under_way.pop(refinement_id, None)
            if not answer.cancelled() and (error := answer.exception()):
                log.debug("%s: a piece of a text was not published: %s", refinement_id, error)

        self._under_way[refinement_id] = answer = self._publish(refinement_id, key, offset, text)
        answer.add_done_callback(sent)
