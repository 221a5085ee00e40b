"""HTTP/1.1 for clients (RFC 9112) on `asyncio.Protocol` and llhttp, and the port to it.

HttpError            no response, or not all of it
  NotConnected       no connection; nothing was sent. The message says why
    AddressRefused   it has no address that may be called
    UntrustedPeer    its TLS certificate is untrusted
  ConnectionBroken   closed or reset before the end of the response
  InvalidUrl         the URL is invalid
  InvalidField       a header field is invalid: it has a line end
  InvalidResponse    not HTTP, or more than 64 KiB of header fields, chunk extensions or trailers

A request is one write and is sent once: one that a server may have read is never repeated here,
since a POST is not idempotent. Callbacks parse the response; the caller is woken when there is
something to read. A connection is used again only after a whole response with nothing behind it,
and a rest in which nothing came.
"""

import asyncio
import os
import ssl
from base64 import b64encode
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property, lru_cache, partial
from ipaddress import ip_address
from socket import AI_ADDRCONFIG, AI_NUMERICHOST, SOCK_STREAM
from typing import NamedTuple, Protocol, cast

from aiohappyeyeballs import AddrInfoType, pop_addr_infos_interleave, start_connection
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from multidict import CIMultiDict
from yarl import URL

DNS_CACHE_S = 60.0
KEPT_S = 15.0
"""How long an idle connection is kept; servers and balancers close theirs after 5 s or more."""

REST_S = 0.1
"""How long nothing must come on an idle connection before it is used again. HTTP/1.1 names no
request in a response: a second one to the request before would be taken for that to the next."""

HAPPY_EYEBALLS_S = 0.25
"""RFC 8305: when to try the next address beside one that has not answered."""

MOST_FRAMING = 64 * 1024
"""Bytes in a row that are no body: of header fields, chunk extensions and trailers."""

MOST_UNREAD = 256 * 1024
"""Bytes of a body that wait for a slow reader before the connection is read no further."""

MOST_TARGETS = 1_024


class HttpError(Exception):
    """No response, or not all of it."""


class NotConnected(HttpError):
    """No connection was made, so nothing was sent."""


class AddressRefused(NotConnected, OSError):
    """The name has no address, or one that may not be called.

    The message leaves open which, as it would reveal the network.
    """

    def __init__(self) -> None:
        super().__init__(0, "it has no public address")


class UntrustedPeer(NotConnected):
    """The TLS certificate is untrusted."""


class ConnectionBroken(HttpError):
    """The connection was closed or reset before the end of the response."""


class InvalidUrl(HttpError):
    """The URL is invalid; nothing was sent."""


class InvalidField(HttpError):
    """A header field is invalid; nothing was sent."""


class InvalidResponse(HttpError):
    """What the server sent is not HTTP, or its framing is too long."""


def reason_of(error: OSError) -> str:
    """Return why a connection failed, without the addresses that asyncio names."""
    number = 0 if isinstance(error, ssl.SSLError) else error.errno or 0
    said = os.strerror(number) if number > 0 else error.strerror or str(error)
    return said or "it closed the connection"  # an event loop may raise an error without words


class HttpResponse(Protocol):
    """A response whose head has arrived."""

    @property
    def status(self) -> int: ...

    @property
    def fields(self) -> Mapping[str, str]:
        """The header fields; names in any case."""

    @property
    def is_whole(self) -> bool:
        """Whether all of it has arrived, though perhaps not been read."""

    async def read(self) -> bytes:
        """Return what has arrived of the body, at least one byte; empty at its end.

        The body is as it was sent, possibly compressed. Raises `HttpError`.
        """

    def close(self) -> None:
        """End the exchange; close the connection unless the response has arrived whole."""


class HttpClient(Protocol):
    """Sends requests without following redirects, and keeps no cookies."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        """Send a request once; return when the head of its response has arrived.

        Raises `HttpError`. A cancelled call closes its connection.
        """


class Destination(NamedTuple):
    """Where connections lead to: those with the same destination may be shared."""

    is_tls: bool
    host: str
    port: int


LookUp = Callable[[str, int], Awaitable[list[AddrInfoType]]]
"""Returns the addresses of a host and port. Raises `OSError` and `UnicodeError`."""


async def system_addresses(host: str, port: int) -> list[AddrInfoType]:
    """Look a name up as the operating system does."""
    try:
        ip_address(host)
        flags = AI_NUMERICHOST
    except ValueError:
        flags = AI_ADDRCONFIG
    loop = asyncio.get_running_loop()
    return [*await loop.getaddrinfo(host, port, type=SOCK_STREAM, flags=flags)]


class _Idle:
    """Idle connections to one destination, in the order in which they became idle."""

    def __init__(self) -> None:
        self.resting: deque[_Connection] = deque()
        self.rested: list[_Connection] = []

    def take(self, rested_since: float) -> "_Connection | None":
        """Remove and return the last one that has rested; None if all rest."""
        while self.resting and self.resting[0].idle_since <= rested_since:
            self.rested.append(self.resting.popleft())
        return self.rested.pop() if self.rested else None

    def leave(self, since: float) -> bool:
        """Close those that are idle since then; return whether any is left."""
        connections = (*self.rested, *self.resting)
        self.rested.clear()
        self.resting.clear()
        for connection in connections:
            if connection.is_open and connection.idle_since > since:
                self.resting.append(connection)
            else:
                connection.abort()
        return bool(self.resting)


class Http1Client:
    """Any number of connections; idle ones are kept for `kept_s`, and the last used is used first.

    One is used again after a rest of `rest_s`. `connect_s` is the longest time for DNS, TCP and TLS
    together.
    """

    def __init__(
        self,
        connect_s: float,
        *,
        tls: ssl.SSLContext | None = None,
        look_up: LookUp = system_addresses,
        kept_s: float = KEPT_S,
        rest_s: float = REST_S,
    ) -> None:
        self._connect_s = connect_s
        self._given_tls = tls
        self._kept_s = kept_s
        self._rest_s = rest_s
        self._loop = asyncio.get_running_loop()
        self._names = _NameCache(self._loop, look_up)
        self._connections: set[_Connection] = set()
        self._idle: dict[Destination, _Idle] = {}
        self._sweep: asyncio.TimerHandle | None = None

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        """Send a request once, see `HttpClient`."""
        destination, start = _target(url)
        request = _head(start, headers, len(body)) + body
        connection = self._take_idle(destination) or await self._connect(destination)
        try:
            await connection.send(request)
        except BaseException:
            connection.close()
            raise
        return connection

    async def aclose(self) -> None:
        """Close every connection, those in use too."""
        if self._sweep:
            self._sweep.cancel()
        self._names.close()
        for connection in tuple(self._connections):
            connection.abort()

    def _take_idle(self, destination: Destination) -> "_Connection | None":
        idle = self._idle.get(destination)
        now = self._loop.time()
        while idle and (connection := idle.take(now - self._rest_s)):
            if connection.is_open and now - connection.idle_since < self._kept_s:
                return connection
            connection.abort()
        return None

    def _keep(self, destination: Destination, connection: "_Connection") -> None:
        connection.idle_since = self._loop.time()
        if destination not in self._idle:
            self._idle[destination] = _Idle()
        self._idle[destination].resting.append(connection)
        if self._sweep is None:
            self._sweep = self._loop.call_later(self._kept_s, self._close_idle)

    def _close_idle(self) -> None:
        """Close what has been idle for too long; come back while anything is idle."""
        since = self._loop.time() - self._kept_s
        self._idle = {to: idle for to, idle in self._idle.items() if idle.leave(since)}
        again = bool(self._idle)
        self._sweep = self._loop.call_later(self._kept_s, self._close_idle) if again else None

    async def _connect(self, destination: Destination) -> "_Connection":
        timeout = asyncio.timeout(self._connect_s)
        try:
            async with timeout:
                return await self._first_connected(destination)
        except ssl.CertificateError as error:
            raise UntrustedPeer(str(error)) from None
        except UnicodeError:  # a name that no resolver can encode
            raise InvalidUrl from None
        except OSError as error:
            why = "connection timeout" if timeout.expired() else reason_of(error)
            raise NotConnected(why) from None

    async def _first_connected(self, destination: Destination) -> "_Connection":
        """Connect to the first address that accepts, and speaks TLS where that is required."""
        addresses = await self._names.addresses(destination.host, destination.port)
        tls = self._tls if destination.is_tls else None
        hostname = destination.host.rstrip(".") if tls else None
        opened = partial(
            _Connection, self._loop, self._connections, partial(self._keep, destination)
        )
        while True:
            socket = await start_connection(
                addresses, happy_eyeballs_delay=HAPPY_EYEBALLS_S, loop=self._loop
            )
            try:
                _, connection = await self._loop.create_connection(
                    opened, sock=socket, ssl=tls, server_hostname=hostname
                )
            except OSError:
                pop_addr_infos_interleave(addresses, 1)
                if not addresses:
                    raise
            else:
                return connection

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        if self._given_tls:
            return self._given_tls
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        return context


class _NameCache:
    """Addresses by host and port; all who ask for a name at once share one lookup."""

    def __init__(self, loop: asyncio.AbstractEventLoop, look_up: LookUp) -> None:
        self._loop = loop
        self._look_up = look_up
        self._lookups: dict[tuple[str, int], asyncio.Future[list[AddrInfoType]]] = {}

    async def addresses(self, host: str, port: int) -> list[AddrInfoType]:
        """Return addresses, each time another one first. Raises `OSError` and `UnicodeError`."""
        key = (host, port)
        if key not in self._lookups:
            self._lookups[key] = asyncio.ensure_future(self._look_up(host, port))
            self._lookups[key].add_done_callback(partial(self._expire, key))
        found = await asyncio.shield(self._lookups[key])
        found.append(found.pop(0))
        return found.copy()

    def close(self) -> None:
        """Cancel lookups under way."""
        for lookup in self._lookups.values():
            lookup.cancel()

    def _expire(self, key: tuple[str, int], lookup: asyncio.Future[list[AddrInfoType]]) -> None:
        """Keep what was found for a minute, and failures not at all."""
        if lookup.cancelled() or lookup.exception():
            del self._lookups[key]
        else:
            self._loop.call_later(DNS_CACHE_S, self._lookups.pop, key, None)


class _Connection(asyncio.Protocol):
    """One connection, and the response of its exchange under way: requests are not pipelined."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connections: "set[_Connection]",
        keep: "Callable[[_Connection], None]",
    ) -> None:
        self.is_open = False
        self.idle_since = 0.0
        self.status = 0
        self.fields: CIMultiDict[str] = CIMultiDict()
        self._loop = loop
        self._connections = connections
        self._keep = keep
        self._pieces: list[bytes] = []
        self._waiter: asyncio.Future[None] | None = None
        self._error: HttpError | None = None
        self._unread = self._framing = 0
        self._is_paused = False
        self._has_head = self.is_whole = True  # no exchange has begun
        self._ends_with_connection = self._may_stay = False

    async def send(self, request: bytes) -> None:
        """Write a request; return when the head of its response has arrived."""
        self.fields = CIMultiDict()
        self._framing = 0
        self._has_head = self.is_whole = False
        self._ends_with_connection = self._may_stay = False
        self._transport.write(request)
        while not self._has_head:
            await self._progress()

    async def read(self) -> bytes:
        """Return what has arrived, see `HttpResponse`."""
        while not self._pieces:
            if self.is_whole:
                return b""
            await self._progress()
        piece = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._discard_pieces()
        return piece

    def close(self) -> None:
        """Keep the connection for the next exchange, or close it."""
        may_stay = self.is_open and self.is_whole and self._may_stay
        if may_stay and not self._transport.get_write_buffer_size():  # the request was taken whole
            if self._pieces:
                self._discard_pieces()
            self._keep(self)
        else:
            self.abort()

    def abort(self) -> None:
        """Close the connection at once; an exchange under way fails."""
        self._transport.abort()
        self._end(ConnectionAbortedError())

    def _progress(self) -> asyncio.Future[None]:
        """Return what ends with the next part of the response. Raises `HttpError`."""
        if self._error:
            raise self._error
        self._waiter = self._loop.create_future()
        return self._waiter

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)

    def _discard_pieces(self) -> None:
        self._pieces.clear()
        self._unread = 0
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._parser = HttpResponseParser(self)
        # Servers that end lines with LF, or write spaces after the size of a chunk, are understood.
        self._parser.set_dangerous_leniencies(
            lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._connections.add(self)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        if self.is_whole:  # nothing was asked for
            self.abort()
            return
        self._framing += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self._fail_as_invalid()
        if self._framing > MOST_FRAMING:
            self._fail_as_invalid()
        self._wake()

    def eof_received(self) -> None:
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)
        self._connections.discard(self)
        del self._parser  # it refers to this object: without the cycle both are freed at once

    def _end(self, error: Exception | None) -> None:
        """Take the end of the connection, which is that of some bodies too."""
        if not self.is_open:
            return
        self.is_open = False
        if self._ends_with_connection and error is None:
            self.is_whole = True
        self._error = self._error or ConnectionBroken()
        self._wake()

    def _fail_as_invalid(self) -> None:
        self._may_stay = False
        if not self.is_whole:
            self._error = InvalidResponse()
            self._transport.abort()

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self.is_whole:
            self._may_stay = False  # another response, that nobody asked for

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_head:  # neither trailer nor of another response
            text = value.decode("utf-8", "surrogateescape")
            self.fields.add(name.decode("latin-1"), text.rstrip(" \t"))

    def on_headers_complete(self) -> None:
        if self._has_head:
            return
        status = self._parser.get_status_code()
        if status < 200:  # RFC 9110, 15.2: others follow until the final one
            self.fields.clear()
            return
        coding = self.fields.get("Transfer-Encoding")
        if coding is not None and coding.lower() != "chunked":
            raise InvalidResponse
        self.status = status
        self._framing = 0
        self._has_head = True
        self._may_stay = self._parser.should_keep_alive()
        self._ends_with_connection = coding is None and "Content-Length" not in self.fields

    def on_body(self, body: bytes) -> None:
        if self.is_whole:
            return
        self._framing = 0
        self._pieces.append(body)
        self._unread += len(body)
        if self._unread > MOST_UNREAD and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if self._has_head:
            self.is_whole = True


@lru_cache(MOST_TARGETS)
def _target(url: str) -> tuple[Destination, str]:
    """Return where a request goes, and the start of its head. Raises `InvalidUrl`."""
    try:
        parsed = URL(url)
    except ValueError:
        raise InvalidUrl from None
    host, port = parsed.raw_host, parsed.port
    if parsed.scheme not in {"http", "https"} or not host or not port:
        raise InvalidUrl
    start = f"POST {parsed.raw_path_qs} HTTP/1.1\r\nHost: {parsed.host_port_subcomponent}"
    if parsed.user is not None or parsed.password is not None:
        login = f"{parsed.user or ''}:{parsed.password or ''}".encode()
        start += f"\r\nAuthorization: Basic {b64encode(login).decode()}"
    return Destination(parsed.scheme == "https", host, port), start


def _head(start: str, headers: Mapping[str, str], length: int) -> bytes:
    """Return the head of a request. Raises `InvalidField`."""
    fields = [f"{name}: {value}" for name, value in headers.items()]
    try:
        sent = "".join(fields)
        if "\r" in sent or "\n" in sent or "\0" in sent:  # RFC 9110, 5.5: would begin another one
            raise InvalidField
        return "\r\n".join([start, *fields, f"Content-Length: {length}", "", ""]).encode()
    except UnicodeEncodeError:
        raise InvalidField from None
