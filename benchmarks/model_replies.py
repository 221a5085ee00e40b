"""The replies of a model server: valid and faulty ones, and a model whose drafts improve.

A behaviour is a function from a request to a reply; those in this module keep no state.
"""

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, cached_property, lru_cache
from typing import Any

SCORES = (0.4, 0.6, 0.8, 0.95)
"""The scores of drafts 1, 2 and 3, and of every later one: draft 4 is the first to pass 0.85."""

DRAFT = re.compile(rb"Draft number (\d+)")
CRITERIA = re.compile(rb'"enum": ?(\["[^\]]*\])')


class ReplyEnding(Enum):
    """How a call ends."""

    ANSWER = "answer"
    RESET = "reset"
    NEVER = "never"


@dataclass(frozen=True)
class AskedPrompt:
    """One call: `number` counts from 1, `head` is the request line and the header fields."""

    number: int
    path: str
    head: bytes
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        """The body, parsed."""
        parsed: dict[str, Any] = json.loads(self.body)
        return parsed

    def header(self, name: str) -> str | None:
        """Return the value of a header field."""
        found = re.search(rb"(?i)\r\n" + name.encode() + rb": *([^\r]*)", self.head)
        return found[1].decode() if found else None


@dataclass(frozen=True)
class ModelServerReply:
    """The response to send; `delay_s` None means the server's own latency.

    With `chunk_bytes` the body is sent in pieces of that size, one every `every_s` seconds. With
    `is_cut` the connection is closed after the body, though the response promises more.
    """

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "application/json"),)
    delay_s: float | None = None
    ending: ReplyEnding = ReplyEnding.ANSWER
    chunk_bytes: int = 0
    every_s: float = 0.0
    is_cut: bool = False
    pieces: tuple[bytes, ...] = ()
    """The body in the pieces in which it is sent, if they are not all of one size."""
    after: asyncio.Event | None = None
    """What the response waits for; a stream of pieces waits for it before the last one."""

    @cached_property
    def wire(self) -> bytes:
        """The bytes of the HTTP response."""
        fields = "".join(f"{name}: {value}\r\n" for name, value in self.headers)
        length = len(self.body) + self.is_cut
        head = f"HTTP/1.1 {self.status} -\r\n{fields}Content-Length: {length}\r\n\r\n"
        return head.encode() + self.body


WORDS = re.compile(r"\S*\s*")
EVENT_STREAM = (("Content-Type", "text/event-stream"),)


def streamed(reply: ModelServerReply, asked: AskedPrompt) -> ModelServerReply:
    """Return a chat completion as the stream of chunks that was asked for, a word in each.

    Other replies, and those to calls that ask for no stream, are returned as they are.
    """
    if b'"stream":true' not in asked.body or reply.status != 200 or reply.chunk_bytes:
        return reply
    try:
        completion = json.loads(reply.body)
        choice = completion["choices"][0]
        text = choice["message"]["content"]
    except (ValueError, LookupError, TypeError):
        return reply
    shared = {"id": "chatcmpl-0", "object": "chat.completion.chunk", "model": completion["model"]}
    deltas = [{"content": word} for word in WORDS.findall(text) if word]
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]})
    chunks = [shared | {"choices": [it]} for it in choices]
    if asked.json.get("stream_options", {}).get("include_usage"):
        chunks.append(shared | {"choices": [], "usage": completion["usage"]})
    pieces = [b"data: " + json.dumps(it).encode() + b"\n\n" for it in chunks]
    return replace(events(*pieces, b"data: [DONE]\n\n"), after=reply.after)


def events(*pieces: bytes) -> ModelServerReply:
    """Return an event stream that is sent in these pieces."""
    return ModelServerReply(body=b"".join(pieces), headers=EVENT_STREAM, pieces=pieces)


Behaviour = Callable[[AskedPrompt], ModelServerReply]

RESET = ModelServerReply(ending=ReplyEnding.RESET)
HANG = ModelServerReply(ending=ReplyEnding.NEVER)
NOT_JSON = ModelServerReply(
    body=b"<html>It works!</html>", headers=(("Content-Type", "text/html"),)
)
WRONG_SCHEMA = ModelServerReply(body=b'{"choices": [{"message": {"text": 7}}]}')
EMPTY = ModelServerReply(body=b"")


def chat(text: str, **changes: Any) -> ModelServerReply:
    """Return a chat completion with this text; `changes` replace top-level fields of its JSON."""
    completion = {
        "id": "chatcmpl-0",
        "object": "chat.completion",
        "model": "bench",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": text},
            }
        ],
        "usage": {"prompt_tokens": 700, "completion_tokens": 300, "total_tokens": 1000},
    }
    return ModelServerReply(body=json.dumps(completion | changes).encode())


def refusal(
    status: int, message: str, *headers: tuple[str, str], **details: Any
) -> ModelServerReply:
    """Return an error in OpenAI's form."""
    body = {"error": {"message": message, "type": "error", "param": None, "code": None} | details}
    return ModelServerReply(status=status, body=json.dumps(body).encode(), headers=headers)


def drip(text: str, every_s: float = 1.0) -> ModelServerReply:
    """Return a completion that is sent one byte at a time."""
    return ModelServerReply(body=chat(text).body, chunk_bytes=1, every_s=every_s)


def huge(size: int = 50 * 1024 * 1024) -> ModelServerReply:
    """Return a completion of that many bytes, sent only as fast as the client reads."""
    return ModelServerReply(body=chat("x" * size).body, chunk_bytes=64 * 1024)


def improving(asked: AskedPrompt) -> ModelServerReply:
    """Write draft 1, revise draft n into n + 1, score draft n: eight calls until 0.85 is passed.

    It keeps no state: every draft carries its own number. A draft stands between the marks that the
    prompt asks for.
    """
    drafts = [int(number) for number in DRAFT.findall(asked.body)]
    latest = max(drafts, default=0)
    if b'"response_format"' not in asked.body and b"You judge" not in asked.body:
        return between_marks(_drafted(latest + 1), asked)
    criteria = CRITERIA.search(asked.body)
    return _judged(latest, criteria[1] if criteria else b'["quality"]')


CHARACTERS = re.compile(rb"in (\d+) characters")


def climbing(asked: AskedPrompt) -> ModelServerReply:
    """Write and revise as `improving` does, with scores that hardly rise: 0.301 for draft 1.

    A draft has as many characters as the task asks for: `in 5000 characters`, or 1,200.
    """
    drafts = [int(number) for number in DRAFT.findall(asked.body)]
    latest = max(drafts, default=0)
    if b'"response_format"' not in asked.body and b"You judge" not in asked.body:
        wanted = CHARACTERS.search(asked.body)
        drafted = _long_draft(latest + 1, int(wanted[1]) if wanted else 1_200)
        return between_marks(drafted, asked)
    criteria = CRITERIA.search(asked.body)
    return chat(verdict(latest, 0.3 + latest / 1_000, *_named(criteria)))


MARKS = re.compile(rb"between (<text-\d{6}>) and (</text-\d{6}>)\. Nothing outside")


def between_marks(reply: ModelServerReply, asked: AskedPrompt) -> ModelServerReply:
    """Return a completion with the marks around its text that the prompt asks for, if it does."""
    found = MARKS.search(asked.body)
    if found is None:
        return reply
    start, _, rest = reply.body.partition(b'"content": "')
    text, _, end = rest.partition(b'"')
    marked = b'%b"content": "%b%b%b"%b' % (start, found[1], text, found[2], end)
    return ModelServerReply(body=marked)


@lru_cache(256)
def _long_draft(number: int, characters: int) -> ModelServerReply:
    words = (f"Sentence {number * 10_000 + it} differs." for it in range(characters // 24))
    return chat(" ".join([f"Draft number {number}.", *words]))


def _named(criteria: re.Match[bytes] | None) -> list[str]:
    names: list[str] = json.loads(criteria[1] if criteria else b'["quality"]')
    return names


@cache
def _drafted(number: int) -> ModelServerReply:
    return chat(draft(number))


@cache
def _judged(number: int, criteria: bytes) -> ModelServerReply:
    return chat(critique(number, *json.loads(criteria)))


def draft(number: int) -> str:
    """Return a draft of some 200 words that shares few word 3-grams with any other number's."""
    sentences = [
        f"Point {point} in version {number} says that item {number * 100 + point} matters."
        for point in range(20)
    ]
    return " ".join([f"Draft number {number}.", *sentences])


def critique(number: int, *criteria: str) -> str:
    """Return the verdict on a draft, in the form asked for; every criterion has the same score."""
    return verdict(number, SCORES[min(max(number, 1), len(SCORES)) - 1], *criteria)


def verdict(number: int, score: float, *criteria: str) -> str:
    """Return a verdict with this score for every criterion."""
    said = {"evidence": [], "reason": f"Version {number} of {len(SCORES)}.", "score": score}
    lists: dict[str, list[str]] = {"strengths": [], "weaknesses": [], "suggestions": []}
    return json.dumps({"scores": dict.fromkeys(criteria, said), **lists, "findings": []})
