"""Server-sent events, as the WHATWG standard has them, and the events of a refinement."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hone import models
from hone.decoding import decode

LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")  # a last \r may be the first half of \r\n
TERMINAL = {"refinement.completed", "refinement.failed", "refinement.canceled"}
DELTA = "step.delta"


@dataclass(frozen=True)
class Event:
    """Something that happened to a refinement.

    `event` counts 1, 2, 3 ... without gaps, and is 0 for a `step.delta`: a piece of text that is
    being written, not journaled. `data` is the data class for the type, or the plain dictionary of
    a type that a newer server has; `body` is the event as the server sent it.
    """

    event: int
    type: str
    at: str | None
    data: Any
    body: dict[str, Any] = field(repr=False)

    @property
    def is_terminal(self) -> bool:
        """Whether the refinement has ended with it. A retry may follow the end of a failed one."""
        return self.type in TERMINAL


@dataclass(frozen=True)
class Message:
    """One message of a stream; `id` and `event` may be empty."""

    id: str
    event: str
    data: str


class MessageReader:
    """Takes the bytes of a stream as they come, and returns the messages that are complete."""

    def __init__(self) -> None:
        self._pending: list[bytes] = []
        self._fields: dict[str, list[str]] = {}

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """Yield what is complete. Comments are left out."""
        self._pending.append(chunk)
        if not LINE_END.search(chunk) and not chunk.endswith((b"\r", b"\n")):
            return
        *lines, rest = LINE_END.split(b"".join(self._pending))
        self._pending = [rest] if rest else []
        for line in lines:
            message = self._line(line.decode(errors="replace"))
            if message:
                yield message

    def _line(self, line: str) -> Message | None:
        if line.startswith(":"):
            return None
        if line:
            name, _, value = line.partition(":")
            self._fields.setdefault(name, []).append(value.removeprefix(" "))
            return None
        fields, self._fields = self._fields, {}
        if "data" not in fields:
            return None
        return Message(_last(fields, "id"), _last(fields, "event"), "\n".join(fields["data"]))


def _last(fields: dict[str, list[str]], name: str) -> str:
    return fields.get(name, [""])[-1]


def read_event(message: Message) -> Event:
    """Return the event of a message; raise ValueError if it is none."""
    body = json.loads(message.data)
    if message.event == DELTA:
        return Event(0, DELTA, None, body, body)
    kind = KINDS.get(body["type"])
    data = decode(kind, body).data if kind else body["data"]
    return Event(int(body["event"]), body["type"], body.get("at"), data, body)


def _kinds() -> dict[str, Any]:
    """Return the class of each type of event, which stands in it as its one literal."""
    found = {}
    for name, kind in vars(models).items():
        if name.endswith("Event") and isinstance(kind, type):
            type_ = models.__dict__[name].__annotations__["type"]
            found[type_.__args__[0]] = kind
    return found


KINDS = _kinds()
