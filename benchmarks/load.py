"""Hone's clients in one cheap process: 16 submitters, and one watcher per refinement.

    python -m benchmarks.load --port 8080 --count 1000

`--deltas` watches texts while they are written, and `--request` sends another request, as JSON,
which ends for its maximum of iterations. With `--idle` it reports once everything is submitted and
watched, and stays until it is told to end. It uses plain HTTP/1.1 over asyncio, since the clients
take CPU from the processes under test.
"""

import argparse
import asyncio
import re
import time
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import cast

import uvloop

from benchmarks.loop import request_body
from benchmarks.peers.telling import say, told

ID = re.compile(rb'"id": ?"([^"]+)"')
AT = re.compile(rb'"at": ?"([^"]+)"')
STAMP = re.compile(rb"\(at ([0-9.]+)\)")
SUBMITTERS = 16


@dataclass(frozen=True)
class Load:
    """What is submitted and how it is watched."""

    port: int
    count: int
    body: bytes
    expects: bytes
    query: bytes = b""
    is_idle: bool = False


@dataclass
class WatchedEvents:
    """What the clients observed; times in seconds."""

    submitted: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    since_reply: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


class Watcher(asyncio.Protocol):
    """Reads one event stream to its end."""

    def __init__(
        self, refinement_id: str, load: Load, seen: WatchedEvents, done: asyncio.Future[None]
    ) -> None:
        self._id = refinement_id
        self._load = load
        self._seen = seen
        self._done = done
        self._unread = b""
        self._started_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(
            b"GET /v1/refinements/%b/events%b HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Accept: text/event-stream\r\n\r\n" % (self._id.encode(), self._load.query)
        )

    def data_received(self, data: bytes) -> None:
        now = time.time()
        if self._load.is_idle:
            return
        *events, self._unread = (self._unread + data).split(b"\n\n")
        for event in events:
            self._saw(event, now)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._seen.failures.append(
                f"{self._id}: the stream ended early: {self._unread[:300]!r}"
            )
            self._done.set_result(None)

    def _saw(self, event: bytes, now: float) -> None:
        kind = event.partition(b"event: ")[2].partition(b"\n")[0]
        found = AT.search(event)
        if not kind or not found:
            return
        at = datetime.fromisoformat(found[1].decode()).timestamp()
        if kind == b"step.completed":
            if stamp := STAMP.search(event):
                self._seen.since_reply.append(now - float(stamp[1]))
        elif kind == b"refinement.started":
            self._started_at = at
        elif kind == b"refinement.completed":
            self._seen.seconds.append(at - self._started_at)
            is_right = self._load.expects in event.replace(b": ", b":")
            self._end(None if is_right else event)
        elif kind in {b"refinement.failed", b"refinement.canceled"}:
            self._end(event)

    def _end(self, wrong: bytes | None) -> None:
        if wrong:
            self._seen.failures.append(wrong[:500].decode(errors="replace"))
        if not self._done.done():
            self._done.set_result(None)
        self._transport.abort()


async def submit(load: Load, remaining: "asyncio.Queue[int]", seen: WatchedEvents) -> None:
    """Submit over one connection until nothing remains; watch each refinement to its end."""
    head = b"POST /v1/refinements HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    request = head + b"Content-Length: %d\r\n\r\n%b" % (len(load.body), load.body)
    reader, writer = await asyncio.open_connection("127.0.0.1", load.port)
    watched: list[asyncio.Future[None]] = []
    loop = asyncio.get_running_loop()
    while not remaining.empty():
        remaining.get_nowait()
        began = time.perf_counter()
        writer.write(request)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: *(\d+)", answer)
        answer += await reader.readexactly(int(length[1]) if length else 0)
        seen.submitted.append(time.perf_counter() - began)
        found = ID.search(answer)
        if not answer.startswith(b"HTTP/1.1 202") or not found:
            raise RuntimeError(f"not accepted: {answer[:500]!r}")
        done: asyncio.Future[None] = loop.create_future()
        watched.append(done)
        watcher = partial(Watcher, found[1].decode(), load, seen, done)
        await loop.create_connection(watcher, "127.0.0.1", load.port)
    writer.close()
    if not load.is_idle:
        await asyncio.gather(*watched)


async def run(load: Load) -> None:
    """Submit and watch refinements, then report what was observed."""
    say()
    await told()
    seen = WatchedEvents()
    remaining: asyncio.Queue[int] = asyncio.Queue()
    for number in range(load.count):
        remaining.put_nowait(number)
    started_at = time.time()
    await asyncio.gather(*[submit(load, remaining, seen) for _ in range(SUBMITTERS)])
    say(started_at=started_at, ended_at=time.time(), **vars(seen))
    await told()


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--request")
    parser.add_argument("--deltas", action="store_true")
    parser.add_argument("--idle", action="store_true")
    given = parser.parse_args()
    load = Load(
        given.port,
        given.count,
        given.request.encode() if given.request else request_body(),
        b'"stop_reason":"max_iterations"' if given.request else b'"score":0.95',
        b"?deltas=true" if given.deltas else b"",
        given.idle,
    )
    uvloop.run(run(load))


if __name__ == "__main__":
    main()
