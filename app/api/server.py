"""uvicorn with limits: slow connections are closed, streams ended, upgrades ignored."""

import asyncio
import math
import signal
import socket
import struct
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from app.api.problems import (
    MEDIA_TYPE,
    PAST_THE_BOUNDARY,
    HeadersTooLarge,
    RequestTimeout,
    problem_of,
)
from app.contract.errors import HoneError, MalformedHeader
from app.settings import Settings

MAX_HEAD_BYTES = 64 * 1024
MOST_FRAMING = 0.25
"""Bytes of chunk sizes and trailers for each byte of a body, beside MAX_HEAD_BYTES: chunks of 24
bytes have as many. Each chunk costs as much as some hundred bytes."""
UPGRADE = (b"upgrade", b"http2-settings")
NOW = struct.pack("ii", 1, 0)  # SO_LINGER with a timeout of 0 seconds
LAST_LOOK_S = 1.0
KEEP_ALIVE_S = 75  # longer than the 60 s after which load balancers give up idle connections
SLOWEST_READER = 1_000  # bytes per second of an answer
LINGERS_S = 5.0
"""Seconds for which the rest of a refused request is read after the answer: what a client still
sends to a closed socket resets the connection, and the client never reads the answer."""


class _HeadFirst(asyncio.Transport):
    """Stands in for the transport of a response, and writes the head with what follows it.

    Each write wakes the client, which may take the core.
    """

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._transport = cycle.transport
        self._parts: list[Any] = []

    def write(self, data: Any) -> None:
        self._parts.append(data)
        if len(self._parts) > 1:
            self._cycle.transport = self._transport
            self._transport.writelines(self._parts)

    def close(self) -> None:
        self._transport.writelines(self._parts)
        self._transport.close()


class Cycle(RequestResponseCycle):
    """Leaves it to the connection to close where the body of the request is still arriving."""

    lingers = False

    async def send(self, message: Any) -> None:
        """Send a part of the response; its head is written with the first part of its body."""
        if message["type"] == "http.response.start" and self.scope["method"] != "HEAD":
            self.transport = _HeadFirst(self)
        is_last = message["type"] == "http.response.body" and not message.get("more_body")
        if is_last and self.more_body and not self.keep_alive:
            self.keep_alive = self.lingers = True
        await super().send(message)


class CycleWithoutChunks(Cycle):
    """Answers HTTP/1.0, which knows no chunks: the connection ends a body without a length.

    uvicorn sends chunks to every client (against RFC 9112, 6.1), which would read their sizes as
    lines of a stream.
    """

    has_length = True

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message.get("headers", ())}
            self.has_length = b"content-length" in names
            if not self.has_length:
                self.chunked_encoding = False  # and uvicorn closes the connection
        elif message["type"] == "http.response.body" and not self.has_length:
            self.expected_content_length = len(message.get("body", b""))
        await super().send(message)


class Connection(HttpToolsProtocol):
    """A connection with timeouts: it closes if a request does not arrive or a client does not read.

    A request must arrive within `arrival_s` of its first byte (the first request: of the
    connection), plus one second for every 50 kB of its body. A client with a pending response must
    read 1 kB of it per second, checked every `stall_s`, else the connection is reset.
    """

    arrival_s = 10.0
    stall_s = 8.0
    slowest_sender = 50_000  # bytes per second of a body

    _arriving: asyncio.TimerHandle | None = None
    _stalling: asyncio.TimerHandle | None = None
    _credit_s = 0.0
    _head_bytes: int | None = None  # None while no head is being received
    _body_bytes = 0
    _framing_bytes = 0  # chunk sizes and trailers of the request
    _has_begun = False  # whether what was received last has the beginning of a request
    _is_lingering = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._arriving, self._stalling):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_lingering:
            return
        if self._arriving is None and self._has_answered():
            self._expect_request()
        self._keep_alive()
        self._has_begun = False
        body_before = self._body_bytes
        try:
            self._feed(data)
            if self._head_bytes is not None:
                self._head_bytes += len(data)
                _require_short_head(self._head_bytes)
            elif not self._has_begun:
                self._count_framing(len(data) - (self._body_bytes - body_before))
        except HeadersTooLarge as error:
            self._refuse(error)
        except HttpParserError as error:
            raised = error.__context__  # a callback of the parser raised it
            malformed = MalformedHeader("Invalid HTTP request received.")
            self._refuse(raised if isinstance(raised, HeadersTooLarge) else malformed)

    def _count_framing(self, size: int) -> None:
        self._framing_bytes += size
        if self._framing_bytes > MAX_HEAD_BYTES + MOST_FRAMING * self._body_bytes:
            raise HeadersTooLarge("send larger chunks of the body, and shorter trailers")

    def _feed(self, data: bytes) -> None:
        """Parse data; a request to switch the protocol (RFC 9110, 7.8) is ignored.

        The parser ends at it: another one begins anew, with the same head without it.
        """
        while True:
            try:
                self.parser.feed_data(data)
                return
            except HttpParserUpgrade as upgrade:
                if self.parser.get_method() == b"CONNECT":
                    raise HttpParserError from None
                data = data[upgrade.args[0] :]
            head = self._head_without_upgrade()
            self.parser = HttpRequestParser(self)
            self.parser.feed_data(head)

    def _head_without_upgrade(self) -> bytes:
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        for name, value in self.headers:
            if name == b"connection":
                options = [option.strip() for option in value.split(b",")]
                kept = [option for option in options if option.lower() not in UPGRADE]
                lines += [b"connection: %b" % b", ".join(kept)] if kept else []
            elif name not in UPGRADE:
                lines.append(b"%b: %b" % (name, value))
        return b"\r\n".join([*lines, b"", b""])

    def on_message_begin(self) -> None:
        self._has_begun = True
        self._head_bytes = self._body_bytes = self._framing_bytes = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head_bytes is not None:  # what trailers say is not heeded
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        _require_short_head(
            len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        )
        if self.parser.should_upgrade():
            return
        super().on_headers_complete()
        is_old = self.parser.get_http_version() == "1.0"
        self.cycle.__class__ = CycleWithoutChunks if is_old else Cycle  # nothing of it has run yet
        self._head_bytes = None

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if not self.cycle.response_complete:  # the rest of a rejected body extends no timeout
            self._credit_s += len(body) / self.slowest_sender
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        if self._arriving is not None:
            self._arriving.cancel()
            self._arriving = None
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalling = self.loop.call_later(0, self._look_at_reader, None)

    def resume_writing(self) -> None:
        if self._stalling is not None:
            self._stalling.cancel()
            self._stalling = None
        super().resume_writing()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if getattr(self.cycle, "lingers", False):
            self._close_later()

    def _keep_alive(self) -> None:
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None

    def _close_later(self) -> None:
        """End the response, and close once the client has, or after `LINGERS_S`."""
        if self.transport.is_closing():
            return
        self._is_lingering = True
        self._keep_alive()
        if self._arriving is not None:
            self._arriving.cancel()
        self._arriving = self.loop.call_later(LINGERS_S, self.transport.abort)
        self.transport.write_eof()

    def _expect_request(self) -> None:
        self._credit_s = 0.0
        self._arriving = self.loop.call_later(self.arrival_s, self._look_at_request)

    def _look_at_request(self, *, is_last_look: bool = False) -> None:
        # While reading is paused, it is the server that has not taken what has arrived.
        if self._credit_s >= LAST_LOOK_S or self.flow.read_paused:
            after_s = max(self._credit_s, LAST_LOOK_S)
            self._arriving = self.loop.call_later(after_s, self._look_at_request)
            self._credit_s = 0.0
        elif not is_last_look:  # a busy server may not yet have read what has arrived
            look = partial(self._look_at_request, is_last_look=True)
            self._arriving = self.loop.call_later(LAST_LOOK_S, look)
        else:
            self._refuse(
                RequestTimeout(f"the request did not arrive within {self.arrival_s:.0f} seconds")
            )

    def _look_at_reader(self, unsent_before: int | None) -> None:
        unsent = self.transport.get_write_buffer_size()
        taken = SLOWEST_READER * self.stall_s
        if unsent_before is not None and unsent > unsent_before - taken:
            self._reset()
        else:
            self._stalling = self.loop.call_later(self.stall_s, self._look_at_reader, unsent)

    def _reset(self) -> None:
        """Reset the connection and drop the kernel's send buffer: the client does not read it."""
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NOW)
        self.transport.abort()

    def _refuse(self, error: HoneError) -> None:
        """Close the connection, after a problem response if one can still be sent.

        Between requests, and once a response has begun, none can.
        """
        if self.transport.is_closing() or self._is_idle() or self._is_answering():
            self.transport.abort()
            return
        body = problem_of(error, "").model_dump_json(exclude_none=True).encode()
        status = HTTPStatus(error.status)
        head = f"HTTP/1.1 {status} {status.phrase}\r\ncontent-type: {MEDIA_TYPE}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in PAST_THE_BOUNDARY.items())
        head += f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode() + body)
        if not self._has_answered():  # the request before it is answered to nobody
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._close_later()

    def _is_idle(self) -> bool:
        return self._head_bytes is None and self._has_answered()

    def _has_answered(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        return cycle is None or cycle.response_complete

    def _is_answering(self) -> bool:
        return not self._has_answered() and self.cycle.response_started


def _require_short_head(size: int) -> None:
    if size > MAX_HEAD_BYTES:
        raise HeadersTooLarge(f"the headers must have at most {MAX_HEAD_BYTES} bytes")


class ApiServer(uvicorn.Server):
    """A server that calls `close_streams` at the first signal, before it waits for connections."""

    def __init__(self, config: uvicorn.Config, close_streams: Callable[[], None]) -> None:
        super().__init__(config)
        self._close_streams = close_streams
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Shut down; at the second Ctrl-C immediately. The signal is not raised again."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._close_streams)


def configured(
    app: FastAPI, settings: Settings, connection: type[Connection] = Connection
) -> uvicorn.Config:
    """Return uvicorn's configuration; uvicorn logs through the logging of the process."""
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        loop="auto",
        http=connection,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the boundary reads the scheme; nothing needs the address
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(1, math.floor(settings.grace_s - 1)),
    )
