"""What a wire format is: a question turned into a request, a reply turned into a text.

A dialect is pure: it neither sends nor waits. `Remote` plays it over a `Transport`.
"""

from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

from workers.models.port import ModelCall, ModelError

Unwanted = frozenset[str]
"""What a server has refused for a model: names that only its dialect understands."""


@dataclass(frozen=True, slots=True)
class Request:
    """One POST. `secret` never appears in an error, whatever the server says."""

    url: str
    headers: dict[str, str]
    body: bytes
    secret: str = field(default="", repr=False)

    @property
    def host(self) -> str:
        """The server's name and port, for people, whether or not the URL can be read."""
        try:
            return urlsplit(self.url).netloc.rpartition("@")[2]
        except ValueError:
            return "the URL"


@dataclass(frozen=True, slots=True)
class Said:
    """What a model said; `tokens` (input, output) is None when the server did not count them.

    With a `flaw` the text must not be used, but was paid for all the same.
    """

    text: str
    model: str | None
    tokens: tuple[int, int] | None
    flaw: ModelError | None = None


class Dialect(Protocol):
    """One wire format, for one server and key."""

    def request(self, call: ModelCall, unwanted: Unwanted) -> Request:
        """Ask without what the server has refused for this model."""

    def refused(self, said: str, call: ModelCall, unwanted: Unwanted) -> str | None:
        """Return which part of the request a refusal is about, if it can do without it."""

    def read(self, body: bytes) -> Said:
        """Read a reply. Raises `UnreadableReply` when it is not in this format."""
