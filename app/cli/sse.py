"""Server-sent events as they arrive (HTML Living Standard, 9.2.6)."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")  # a last \r may be the first half of \r\n


@dataclass(frozen=True)
class Message:
    """One event of a stream: its id and type where it has them, and its data."""

    id: str
    event: str
    data: str


def messages(chunks: Iterable[bytes]) -> Iterator[Message | None]:
    """Yield each event, and None for each comment: the server is there and has no news.

    An event that the stream's end cuts off is not yielded.
    """
    fields: dict[str, list[str]] = {}
    for line in _lines(chunks):
        if line.startswith(":"):
            yield None
        elif line:
            name, _, value = line.partition(":")
            fields.setdefault(name, []).append(value.removeprefix(" "))
        else:
            if "data" in fields:
                yield Message(
                    _last(fields, "id"), _last(fields, "event"), "\n".join(fields["data"])
                )
            fields = {}


def _last(fields: dict[str, list[str]], name: str) -> str:
    return fields.get(name, [""])[-1]


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Split at the three line ends of the standard only: drafts may hold others, such as U+2028."""
    pending: list[bytes] = []
    for chunk in chunks:
        if not LINE_END.search(chunk) and not chunk.endswith(b"\r"):
            pending.append(chunk)  # joined once, at the line's end: an event can be megabytes
            continue
        *lines, rest = LINE_END.split(b"".join([*pending, chunk]))
        pending = [rest] if rest else []
        for line in lines:
            yield line.decode(errors="replace")
