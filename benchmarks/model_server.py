"""A local model server: OpenAI chat completions with a fixed latency, and a count of every call.

    python -m benchmarks.model_server --port 0 --latency-ms 200      prints its port

`GET /stats` returns the counters, `GET /keys` the calls per `Idempotency-Key`, and `POST /reset`
sets all to zero. Every other POST is a call, answered by a behaviour: by default the one in
`benchmarks.model_replies`, which makes a refinement of exactly eight calls. It uses
`asyncio.Protocol`, since it takes CPU from the processes under test.

Rate limits: `--limit 20 --window-s 1` allows 20 calls a second and refuses the others at once with
429. `--limit-kind` says how calls are counted: `sliding` (in any window), `bucket` (refilled all
the time), or `fixed` (windows from the start of the server). `--limit-fields openai` or `anthropic`
reports the limit with every reply, and `--retry-after` says with a 429 how many whole seconds to
wait. `refused` counts the calls that a limit refused.

Outages: `--outage-at-s 5 --outage-s 60` fails every call from 5 s after the start for 60 s, and so
does `POST /outage?s=60` from then on (`s=0` ends it). `--outage-as` or `&as=` says how: `503`
(default) or any other status, `reset` (of the connection), `hang` (no answer). `during_outage`
counts the calls that an outage met.
"""

import argparse
import asyncio
import contextlib
import hashlib
import json
import re
import ssl
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Self, cast, get_args
from urllib.parse import parse_qs, urlsplit

import uvloop

from benchmarks.model_replies import (
    HANG,
    RESET,
    AskedPrompt,
    Behaviour,
    ModelServerReply,
    ReplyEnding,
    improving,
    refusal,
    streamed,
)
from benchmarks.rate_limits import KINDS, Allowance, Fields, reported

LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
KEY = re.compile(rb"(?i)\r\nidempotency-key: *([^\r]+)")
MOST_UNSENT = 256 * 1024


@dataclass
class CallCounts:
    """Counters since the start or the last reset; the client of a `dropped` call disconnected."""

    calls: int = 0
    answered: int = 0
    dropped: int = 0
    in_flight: int = 0
    most_in_flight: int = 0
    connections: int = 0
    bytes_sent: int = 0
    refused: int = 0
    during_outage: int = 0
    keys: Counter[str] = field(default_factory=Counter)

    def summary(self) -> dict[str, float]:
        """Return the counters, how many calls repeated a key, and CPU seconds of this process."""
        numbers = {name: value for name, value in vars(self).items() if name != "keys"}
        return numbers | {
            "keys": len(self.keys),
            "repeated": sum(self.keys.values()) - len(self.keys),
            "cpu_s": time.process_time(),
        }


@dataclass
class RecordedCall:
    """One call: its key, the SHA-256 of its body, the client's port, and when it was under way.

    Times are seconds since 1970; `ended_at` is None while it is under way.
    """

    key: str
    content: str
    port: int
    began_at: float
    ended_at: float | None = None
    is_answered: bool = False
    is_refused: bool = False
    """Whether the answer was an error, or none at all: nothing was done that costs money."""

    @property
    def refinement_id(self) -> str:
        """The refinement that the call belongs to."""
        return self.key.partition("/")[0]


@dataclass(frozen=True)
class RateLimit:
    """What the server allows, and how it says so."""

    allowance: Allowance
    fields: Fields = "none"
    has_retry_after: bool = False

    def reply(self, now: float, normal: Callable[[], ModelServerReply]) -> ModelServerReply:
        """Return the normal reply to a call at this time, in seconds, or a refusal with 429."""
        verdict = self.allowance.admit(now)
        fields = tuple(reported(verdict, self.fields).items())
        if not verdict.is_allowed:
            if self.has_retry_after:
                fields += (("Retry-After", str(ceil(verdict.retry_s))),)
            return replace(
                refusal(429, "Rate limit reached", *fields, code="rate_limit_exceeded"), delay_s=0
            )
        reply = normal()
        return replace(reply, headers=reply.headers + fields) if fields else reply


@dataclass
class Outage:
    """A time, in seconds of the event loop, in which every call fails."""

    begins: float
    ends: float
    how: str = "503"

    def reply(self, now: float) -> ModelServerReply | None:
        """Return how a call at this time fails; None if it does not."""
        if not self.begins <= now < self.ends:
            return None
        if self.how == "reset":
            return replace(RESET, delay_s=0)
        return HANG if self.how == "hang" else replace(refusal(int(self.how), "down"), delay_s=0)


class ScriptedModelServer:
    """Listens on 127.0.0.1 while its context is open; `port` 0 takes a free one.

    With a `record`, every call is appended to it. `limit` and `outage` may be replaced at any time.
    A call that asks for a stream gets one, with a chunk every `stream_every_s` seconds.
    """

    def __init__(
        self,
        behaviour: Behaviour = improving,
        latency_s: float = 0.0,
        port: int = 0,
        record: list[RecordedCall] | None = None,
        limit: RateLimit | None = None,
        stream_every_s: float = 0.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.behaviour = behaviour
        self.limit = limit
        self.outage: Outage | None = None
        self.stream_every_s = stream_every_s
        self.latency_s = latency_s
        self.tls = tls
        self.port = port
        self.counts = CallCounts()
        self.record = record
        self._connections: set[_Connection] = set()

    @property
    def url(self) -> str:
        """The base URL for a client of OpenAI's API."""
        return f"http://127.0.0.1:{self.port}/v1"

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Connection(self, loop), "127.0.0.1", self.port, backlog=4096, ssl=self.tls
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for connection in list(self._connections):
            connection.transport.abort()
        await self._server.wait_closed()

    def reset(self) -> None:
        """Set every counter to zero; calls in flight are counted again when they end."""
        self.counts = CallCounts(
            in_flight=self.counts.in_flight, connections=len(self._connections)
        )

    def fail(self, seconds: float, how: str = "503", after_s: float = 0.0) -> None:
        """Begin an outage; `how` is a status, `reset` or `hang`."""
        begins = asyncio.get_running_loop().time() + after_s
        self.outage = Outage(begins, begins + seconds, how)

    def reply(self, asked: AskedPrompt) -> ModelServerReply:
        """Return the reply to a call: of the outage, of the limit, or of the behaviour."""
        if self.outage is None and self.limit is None:
            return self.behaviour(asked)
        now = asyncio.get_running_loop().time()
        if self.outage and (failure := self.outage.reply(now)):
            self.counts.during_outage += 1
            return failure
        if self.limit is None:
            return self.behaviour(asked)
        reply = self.limit.reply(now, lambda: self.behaviour(asked))
        self.counts.refused += reply.status == 429
        return reply

    def opened(self, connection: "_Connection") -> None:
        """Count a connection."""
        self._connections.add(connection)
        self.counts.connections += 1

    def closed(self, connection: "_Connection") -> None:
        """Remove a closed connection."""
        self._connections.discard(connection)


class _Connection(asyncio.Protocol):
    """One keep-alive connection; its calls are answered one after the other."""

    transport: asyncio.Transport

    def __init__(self, server: ScriptedModelServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._unread = b""
        self._pending: asyncio.TimerHandle | None = None
        self._is_busy = False
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._pacing: asyncio.Task[None] | None = None
        self._recorded: RecordedCall | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(MOST_UNSENT)
        self._server.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.closed(self)
        if self._pending:
            self._pending.cancel()
        if self._pacing:
            self._pacing.cancel()
        if self._is_busy:
            self._ended("dropped")

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def data_received(self, data: bytes) -> None:
        self._unread = self._unread + data if self._unread else data
        if not self._is_busy:
            self._read()

    def _read(self) -> None:
        head_end = self._unread.find(b"\r\n\r\n")
        if head_end < 0:
            return
        head = self._unread[: head_end + 2]
        length = LENGTH.search(head)
        end = head_end + 4 + (int(length[1]) if length else 0)
        if len(self._unread) < end:
            return
        body, self._unread = self._unread[head_end + 4 : end], self._unread[end:]
        method, path, _ = head.split(b" ", 2)
        if method == b"GET" or path == b"/reset" or path.startswith(b"/outage"):
            self._administer(path)
        else:
            self._called(path.decode(), head, body)

    def _administer(self, path: bytes) -> None:
        if path == b"/reset":
            self._server.reset()
        elif path.startswith(b"/outage"):
            wanted = parse_qs(urlsplit(path.decode()).query)
            self._server.fail(float(wanted["s"][0]), wanted.get("as", ["503"])[0])
        counts = self._server.counts
        answer = counts.keys if path == b"/keys" else counts.summary()
        self.transport.write(ModelServerReply(body=json.dumps(answer).encode()).wire)
        self._read()

    def _called(self, path: str, head: bytes, body: bytes) -> None:
        counts = self._server.counts
        self._is_busy = True
        counts.calls += 1
        counts.in_flight += 1
        counts.most_in_flight = max(counts.most_in_flight, counts.in_flight)
        if key := KEY.search(head):
            counts.keys[key[1].decode()] += 1
        if self._server.record is not None:
            self._begin_record(key[1].decode() if key else "", body)
        asked = AskedPrompt(counts.calls, path, head, body)
        reply = streamed(self._server.reply(asked), asked)
        if self._recorded:
            is_answer = reply.status < 300 and reply.ending is ReplyEnding.ANSWER
            self._recorded.is_refused = not is_answer
        delay_s = self._server.latency_s if reply.delay_s is None else reply.delay_s
        if reply.ending is ReplyEnding.NEVER:
            return
        if reply.after and not reply.pieces:
            self._pacing = self._loop.create_task(self._answer_after(reply.after, reply))
        elif delay_s:
            self._pending = self._loop.call_later(delay_s, self._answer, reply)
        else:
            self._answer(reply)

    def _begin_record(self, key: str, body: bytes) -> None:
        assert self._server.record is not None
        port = self.transport.get_extra_info("peername")[1]
        self._recorded = RecordedCall(key, hashlib.sha256(body).hexdigest(), port, time.time())
        self._server.record.append(self._recorded)

    def _answer(self, reply: ModelServerReply) -> None:
        self._pending = None
        if reply.ending is ReplyEnding.RESET:
            self._ended("answered")
            self.transport.abort()
        elif reply.chunk_bytes or (
            reply.pieces and (reply.every_s or reply.after or self._server.stream_every_s)
        ):
            self._pacing = self._loop.create_task(self._paced(reply))
        else:
            self._send(reply.wire)
            self._done(reply)

    async def _answer_after(self, event: asyncio.Event, reply: ModelServerReply) -> None:
        await event.wait()
        self._answer(reply)

    async def _paced(self, reply: ModelServerReply) -> None:
        body, size = reply.body, reply.chunk_bytes
        self._send(reply.wire[: len(reply.wire) - len(body)])
        every_s = reply.every_s or self._server.stream_every_s
        pieces = reply.pieces or [body[at : at + size] for at in range(0, len(body), size)]
        for number, piece in enumerate(pieces, 1):
            await asyncio.sleep(every_s)
            if reply.after and number == len(pieces):
                await reply.after.wait()
            await self._may_write.wait()
            self._send(piece)
        self._done(reply)

    def _send(self, data: bytes) -> None:
        self._server.counts.bytes_sent += len(data)
        self.transport.write(data)

    def _done(self, reply: ModelServerReply) -> None:
        self._ended("answered")
        if reply.is_cut:
            self.transport.close()
        elif self._unread:
            self._read()

    def _ended(self, how: str) -> None:
        self._is_busy = False
        counts = self._server.counts
        counts.in_flight -= 1
        setattr(counts, how, getattr(counts, how) + 1)
        if self._recorded:
            self._recorded.ended_at = time.time()
            self._recorded.is_answered = how == "answered"


async def _serve(arguments: argparse.Namespace) -> None:
    async with ScriptedModelServer(
        latency_s=arguments.latency_ms / 1000,
        port=arguments.port,
        stream_every_s=arguments.stream_ms / 1000,
        tls=server_tls(arguments.certificate) if arguments.certificate else None,
    ) as server:
        if arguments.limit:
            allowance = KINDS[arguments.limit_kind](arguments.limit, arguments.window_s)
            server.limit = RateLimit(allowance, arguments.limit_fields, arguments.retry_after)
        server.fail(arguments.outage_s, arguments.outage_as, arguments.outage_at_s)
        print(server.port, flush=True)
        await asyncio.Event().wait()


def server_tls(certificate: str) -> ssl.SSLContext:
    """Return what a server needs to speak TLS; the file has its certificate and the key."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--limit", type=int, help="calls in a window")
    parser.add_argument("--window-s", type=float, default=1.0)
    parser.add_argument("--limit-kind", choices=KINDS, default="sliding")
    parser.add_argument("--limit-fields", choices=get_args(Fields), default="none")
    parser.add_argument("--retry-after", action="store_true")
    parser.add_argument("--outage-at-s", type=float, default=0.0)
    parser.add_argument("--outage-s", type=float, default=0.0)
    parser.add_argument("--outage-as", default="503", help="a status, reset or hang")
    parser.add_argument("--stream-ms", type=float, default=0.0, help="between two chunks")
    parser.add_argument("--certificate", help="a file with certificate and key: serve over TLS")
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
