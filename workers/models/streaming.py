"""Streamed responses: builds from the pieces the body that the server would have sent whole.

So a reply is read in one place, however it came. Servers differ, and are read tolerantly: an event
may be one `data:` line without an empty line after it, line ends may be of any kind, comments and
unknown events are skipped, and a server that ignores `stream` and answers whole is understood.
A stream that ends before the model has finished is a failed call.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from pydantic_core import from_json, to_json

from app.contract.values import value
from workers.outbound.transport import StreamFailed, UnusableResponse

STATUS_OF: Mapping[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "insufficient_quota": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""HTTP status by the type of an error; an error in a stream comes after status 200."""

FAILED = 500
"""The status of every other error: it may pass."""


class StreamParts(Protocol):
    """Merges the events of one wire format into one response."""

    is_complete: bool
    """Whether the model has finished, so that a missing end of the stream does not matter."""

    def merge(self, event: Mapping[str, Any]) -> int:
        """Take one event, and return how many characters of text it has. Raises `StreamFailed`."""

    def add(self, text: str) -> None:
        """Take an event that differs from the last one in its text alone."""

    def text(self) -> str:
        """Return the text so far, without thinking that the format keeps apart."""

    def body(self) -> bytes:
        """Return the response as one body in the wire format."""


OTHER_TEXT = "another text"


@value(slots=True)
class _Pattern:
    """A line of a stream but for its text, a JSON string: what stands before it and after it.

    Most lines of a stream differ in nothing else, and it takes a third of the time to read them so.
    """

    before: bytes
    after: bytes

    @classmethod
    def of(
        cls, line: bytes, event: Mapping[str, Any], open_parts: Callable[[], StreamParts]
    ) -> "_Pattern | None":
        """Return that of a line with an event, None if it is not certain which string is its text.

        With another string in its place the line must have that text, and no other.
        """
        parts = open_parts()
        length = parts.merge(event)
        text = parts.text()
        if not text or length != len(text) or _has_half(line):
            return None
        before, said, after = line.partition(to_json(text))
        if not said or said in after:
            return None
        found = cls(before + b'"', b'"' + after)
        other = _parsed(line.partition(b":")[2].replace(said, to_json(OTHER_TEXT)))
        if not isinstance(other, dict):
            return None
        parts = open_parts()
        parts.merge(other)
        return found if parts.text() == OTHER_TEXT else None

    def texts_in(self, lines: Sequence[bytes]) -> list[str]:
        """Return the texts of the first events, each a line and an empty one; none if in doubt.

        No line has a line end, so that what stands between two texts is as it should be or makes
        the whole no JSON: then each line is read alone. So are texts that end with a backslash or
        have more quotes.
        """
        if not lines[0].startswith(self.before):
            return []
        end = self.after + b"\n"
        *said, last = b"\n".join(lines)[len(self.before) :].split(end + b"\n" + self.before)
        last, ended, rest = last.partition(end)
        if ended and rest[:1] in (b"", b"\n"):
            said.append(last)
        joined = b'["' + b'","'.join(said) + b'"]'
        if b'\\","' in joined:
            return []
        try:
            texts: list[str] = from_json(joined)
        except ValueError:
            return []
        return texts if len(texts) == len(said) else []

    def text_in(self, line: bytes) -> str | None:
        """Return the text of a line that differs in it alone; None for every other line."""
        if not (line.startswith(self.before) and line.endswith(self.after)):
            return None
        said = line[len(self.before) - 1 : len(line) - len(self.after) + 1]
        try:
            text = from_json(said) if len(said) > 1 else None
        except ValueError:
            return None
        return text if isinstance(text, str) else None


MOST_PATTERNS = 4
"""How many patterns are looked for in vain, and one more for every `MOST_PATTERNS` uses: the lines
of some servers differ in more than their text."""


class ResponseInParts:
    """Reads one response, streamed or whole; `held_bytes` is about what it keeps in memory."""

    def __init__(self, open_parts: Callable[[], StreamParts]) -> None:
        self.held_bytes = 0
        self.is_done = False
        self.has_events = False
        """Whether a part of the reply came, if only of the thinking before it."""
        self._open_parts = open_parts
        self._parts = open_parts()
        self._pattern: _Pattern | None = None
        self._patterns = self._uses = 0
        self._whole: list[bytes] | None = None
        self._unread: list[bytes] = []
        self._data: list[bytes] = []
        self._has_begun = False

    @property
    def is_stream(self) -> bool:
        """Whether it is an event stream, as far as it has come."""
        return self._has_begun and self._whole is None

    @property
    def is_complete(self) -> bool:
        """Whether the reply is there, although the stream may not have ended."""
        return self.is_stream and (self.is_done or self._parts.is_complete)

    def take(self, piece: bytes) -> None:
        """Take the next piece. Raises `StreamFailed` and `UnusableResponse`."""
        if not self._has_begun:
            piece = piece.removeprefix(b"\xef\xbb\xbf").lstrip()
            if not piece:
                return
            self._has_begun = True
            self._whole = [] if piece[:1] == b"{" else None
        self.held_bytes += len(piece)
        if self._whole is not None:
            self._whole.append(piece)
            return
        lines = self._lines(piece)
        at, tried = 0, None
        while at < len(lines) and not self.is_done:
            if lines[at] and self._pattern is not None and self._pattern is not tried:
                tried = self._pattern
                at += self._take_texts(lines[at:])
            if at < len(lines):
                self._take_line(lines[at])
                at += 1

    def text(self) -> str:
        """Return the text so far, as far as it can be encoded; empty for a whole response."""
        return _encodable(self._parts.text(), "ignore")

    def body(self) -> bytes:
        """Return the whole response at its end. Raises `StreamFailed` if it was cut off."""
        if self._whole is not None:
            return well_formed(b"".join(self._whole))
        if self._unread and not self.is_done:
            self._take_line(b"".join(self._unread))
        self._take_lines_of_data()
        if not self.is_complete:
            raise StreamFailed("the stream ended before the reply did", FAILED)
        return well_formed(self._parts.body())

    def _lines(self, piece: bytes) -> list[bytes]:
        """Return the lines that end in this piece, without their ends."""
        if b"\n" not in piece and b"\r" not in piece:
            self._unread.append(piece)
            return []
        if self._unread:
            piece = b"".join([*self._unread, piece])
            self._unread.clear()
        if piece.endswith(b"\n"):
            return piece.splitlines()
        *lines, rest = piece.splitlines(keepends=True)  # a CR at its end may be half of a CRLF
        self._unread.append(rest)
        return [line.rstrip(b"\r\n") for line in lines]

    def _take_texts(self, lines: list[bytes]) -> int:
        """Take the events at the beginning that differ in their text alone; return their lines."""
        assert self._pattern
        texts = self._pattern.texts_in(lines)
        taken = lines[: 2 * len(texts)]
        if texts:
            text = "".join(texts)
            self._uses += len(texts)
            self.held_bytes += len(text) - sum(map(len, taken))
            self._parts.add(text)
        return len(taken)

    def _take_line(self, line: bytes) -> None:
        if not line:
            self._take_lines_of_data()
            return
        self.held_bytes -= len(line)
        if self._pattern and (text := self._pattern.text_in(line)) is not None:
            self._uses += 1
            self.held_bytes += len(text)
            self._parts.add(text)
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            self._pattern = None
            self._take_data(value.strip(), line)
        elif name == b"error":  # llama.cpp, before 2025
            self._parts.merge({"error": _parsed(value.strip()) or value.decode(errors="replace")})

    def _take_data(self, data: bytes, line: bytes) -> None:
        if data == b"[DONE]":
            self.is_done = True
        elif self._data or (event := _parsed(data)) is None:
            self._data.append(data)  # the rest stands in further lines
            self.held_bytes += len(data)
        elif isinstance(event, dict):
            self._merge(event)
            if self._patterns < MOST_PATTERNS + self._uses // MOST_PATTERNS:
                self._patterns += 1
                self._pattern = _Pattern.of(line, event, self._open_parts)

    def _take_lines_of_data(self) -> None:
        if not self._data:
            return
        event = _parsed(b"\n".join(self._data))
        self._data.clear()
        if not isinstance(event, dict):
            raise UnusableResponse("an event of the stream is not JSON")
        self._merge(event)

    def _merge(self, event: Mapping[str, Any]) -> None:
        self.held_bytes += self._parts.merge(event)
        self.has_events = True
        self.is_done = event.get("type") == "message_stop"  # Anthropic's [DONE]


def _parsed(data: bytes) -> Any:
    """Return what is JSON, None for the rest; a text may have half of a character beyond U+FFFF."""
    try:
        return from_json(data)
    except ValueError:
        return _leniently_parsed(data) if _has_half(data) else None


def _leniently_parsed(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return None


HALF = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")
"""A surrogate, escaped or not: servers that count in UTF-16 cut texts between the two of a pair."""


def _has_half(data: bytes) -> bool:
    """Return whether there is a surrogate; most data needs no regular expression to know."""
    return (b"\\u" in data or b"\xed" in data) and HALF.search(data) is not None


def well_formed(body: bytes) -> bytes:
    """Return a body in which U+FFFD replaces each surrogate without the other one of its pair."""
    if not _has_half(body) or (said := _leniently_parsed(body)) is None:
        return body
    return _encodable(json.dumps(said, ensure_ascii=False), "replace").encode()


def _encodable(text: str, errors: Literal["ignore", "replace"]) -> str:
    """Return a text in which surrogates are joined in pairs; `errors` is what becomes of others."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", errors)
    return text


def failed(error: object) -> StreamFailed:
    """Return the failure that an error in a stream reports, in any common form."""
    if not isinstance(error, Mapping):
        return StreamFailed(str(error), FAILED)
    status = _number(error.get("code")) or _number(error.get("status"))
    if status is None:
        named = (STATUS_OF.get(str(error.get(name))) for name in ("type", "code"))
        status = next((it for it in named if it), FAILED)
    message = error.get("message")
    said = to_json({"error": dict(error)}).decode()
    return StreamFailed(message if isinstance(message, str) else said, status, said)


def _number(code: object) -> int | None:
    text = str(code)
    return int(text) if len(text) == 3 and text.isdecimal() and 400 <= int(text) < 600 else None


def text_in(content: object) -> str:
    """Return the text of a content: itself, or its parts of the type `text`."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [it for it in content if isinstance(it, dict) and it.get("type", "text") == "text"]
    return "".join(it["text"] for it in parts if isinstance(it.get("text"), str))
