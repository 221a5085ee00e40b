"""HTTP for clients on aiohttp, and the port to it.

HttpError            no response, or not all of it
  NotConnected       no connection; nothing was sent. The message says why
    AddressRefused   it has no address that may be called
    UntrustedPeer    its TLS certificate is untrusted
  ConnectionBroken   closed or reset before the end of the response
  InvalidUrl         the URL is invalid
  InvalidField       a header field is invalid: it has a line end
  InvalidResponse    not HTTP, or a header field that is too long

A request is sent once: one that a server may have read is never repeated here, since a POST is not
idempotent.
"""

import asyncio
import os
import select
import ssl
from collections.abc import Callable, Mapping
from functools import lru_cache
from io import BytesIO
from ipaddress import ip_address
from typing import ClassVar, Protocol, cast
from urllib.request import getproxies, proxy_bypass
from weakref import WeakSet

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import SocketFactoryType
from yarl import URL

DNS_CACHE_S = 60
KEPT_S = 2.0
"""How long an idle connection is kept; servers and balancers close theirs after 5 s or more. Each
refinement has connections of its own, and makes its next call soon or much later."""

LONGEST_FIELD = 64 * 1024
LARGE_BODY = 1024 * 1024
"""Bytes of a body from which aiohttp wants it as a file, which it sends in pieces."""

MOST_URLS = 1_024
IDEMPOTENCY_KEY = "Idempotency-Key"


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


ProxyOf = Callable[[str], URL | None]
"""Returns the proxy for a URL, None for a direct connection. Raises `NotConnected`."""


def no_proxy(_url: str) -> URL | None:
    """Connect directly, whatever the environment says."""
    return None


def proxies_of_environment() -> ProxyOf:
    """Return what `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` say now.

    Loopback is never called through a proxy.
    """
    proxies = getproxies()

    @lru_cache(MOST_URLS)
    def proxy_of(url: str) -> URL | None:
        try:
            target = URL(url)
            host, port = target.raw_host or "", target.port
        except ValueError:  # the client says what is wrong with it
            return None
        proxy = proxies.get(target.scheme)
        if not proxy or is_loopback_host(host) or proxy_bypass(f"{host}:{port}"):
            return None
        try:
            return proxy_url(proxy)
        except ValueError as error:
            raise NotConnected(f"{target.scheme.upper()}_PROXY {error}") from None

    return proxy_of


def proxy_url(text: str) -> URL:
    """Return the address of a proxy, by default one over HTTP. Raises `ValueError`."""
    url = URL(text if "://" in text else f"http://{text}")
    if url.scheme not in {"http", "https"} or not url.raw_host or not url.port:
        raise ValueError("names no HTTP proxy")
    return url


def is_loopback_host(host: str) -> bool:
    """Return whether a host, by its name or address alone, is this machine (RFC 6761, 6.3)."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        name = host.rstrip(".").lower()
        return name == "localhost" or name.endswith(".localhost")


def open_session(
    *,
    kept_s: float = KEPT_S,
    resolver: AbstractResolver | None = None,
    socket_factory: SocketFactoryType | None = None,
    tls: ssl.SSLContext | None = None,
) -> aiohttp.ClientSession:
    """Return a session with any number of connections; an idle one is kept for `kept_s`."""
    connector = aiohttp.TCPConnector(
        limit=0,
        force_close=not kept_s,
        keepalive_timeout=kept_s or None,
        ttl_dns_cache=DNS_CACHE_S,
        resolver=resolver,
        socket_factory=socket_factory,
        ssl=tls or True,
    )
    return aiohttp.ClientSession(
        connector=connector,
        request_class=_OwnedRequest,
        response_class=_ClosedResponse,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        max_line_size=LONGEST_FIELD,
        max_field_size=LONGEST_FIELD,
    )


class AiohttpClient:
    """An `HttpClient` on an open session. `connect_s` is for DNS, proxy, TCP and TLS together."""

    def __init__(
        self, session: aiohttp.ClientSession, connect_s: float, proxy_of: ProxyOf = no_proxy
    ) -> None:
        self._session = session
        self._timeout = aiohttp.ClientTimeout(connect=connect_s)
        self._proxy_of = proxy_of

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        """Send a request once. Raises `AddressRefused` and `HttpError`."""
        proxy = self._proxy_of(url)
        while True:
            try:
                reply = await self._session.post(
                    url,
                    data=body if len(body) <= LARGE_BODY else BytesIO(body),
                    headers=headers,
                    proxy=proxy,
                    allow_redirects=False,
                    timeout=self._timeout,
                )
            except _UnexpectedResponse:
                continue  # nothing was sent, and that connection is closed
            except FAILURES as error:
                raise _translated(error) from None
            return _AiohttpResponse(cast("_ClosedResponse", reply))


class _UnexpectedResponse(Exception):
    """A response arrived on an idle connection."""


class _OwnedRequest(aiohttp.ClientRequest):
    """Uses connections of its own refinement only, and none on which something came unasked.

    A response of HTTP/1.1 names no request, and aiohttp takes what came on an idle connection for
    the response to the next request.
    """

    @property
    def connection_key(self) -> ConnectionKey:
        """What the requests that may share a connection have in common."""
        key = super().connection_key
        owner = self.headers.get(IDEMPOTENCY_KEY, "").partition("/")[0]
        return key._replace(proxy_headers_hash=hash((key.proxy_headers_hash, owner)))

    _used: ClassVar[WeakSet[asyncio.BaseProtocol]] = WeakSet()
    """Connections that have carried a request: what comes on another is no earlier response."""

    async def send(self, conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        """Send the request, or raise `_UnexpectedResponse` instead."""
        protocol = conn.protocol
        assert protocol is not None
        if protocol in self._used and (protocol.should_close or _has_unread(protocol.transport)):
            conn.close()
            raise _UnexpectedResponse
        self._used.add(protocol)
        return await super().send(conn)


def _has_unread(transport: asyncio.Transport | None) -> bool:
    """Return whether the socket has bytes, or its end, that the event loop has not read yet."""
    if transport is None or transport.is_closing():
        return True
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return bool(poll.poll(0))


class _ClosedResponse(aiohttp.ClientResponse):
    """Knows how its connection ended; to aiohttp a body that a reset ends is whole."""

    _end: asyncio.Future[None] | None = None

    async def start(self, connection: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        """Wait for the head of the response."""
        protocol = connection.protocol
        if protocol is not None and (end := protocol.closed):
            end.add_done_callback(lambda closing: closing.cancelled() or closing.exception())
            self._end = end
        return await super().start(connection)

    @property
    def is_broken(self) -> bool:
        """Whether an error has ended the connection, and with it a body without a length."""
        is_framed = "Content-Length" in self.headers or "Transfer-Encoding" in self.headers
        if is_framed or self.status in WITHOUT_BODY or self._end is None or not self._end.done():
            return False
        return not self._end.cancelled() and self._end.exception() is not None


WITHOUT_BODY = (204, 304)


class _AiohttpResponse:
    def __init__(self, reply: _ClosedResponse) -> None:
        self.status = reply.status
        self.fields: Mapping[str, str] = reply.headers
        self._reply = reply

    @property
    def is_whole(self) -> bool:
        return self._reply.content.is_eof() and not self._reply.is_broken

    async def read(self) -> bytes:
        try:
            piece = await self._reply.content.readany()
        except FAILURES as error:
            raise _translated(error) from None
        if not piece and self._reply.is_broken:
            raise ConnectionBroken
        return piece

    def close(self) -> None:
        if self._reply.content.at_eof():
            self._reply.release()
        else:
            self._reply.close()


FAILURES = (aiohttp.ClientError, ValueError)


def _translated(error: aiohttp.ClientError | ValueError) -> HttpError:
    """Return the port's error; aiohttp's is not chained, since some have the request's headers."""
    translated: HttpError = InvalidResponse()
    match error:
        case aiohttp.ConnectionTimeoutError():
            translated = NotConnected("connection timeout")
        case aiohttp.ClientConnectorCertificateError():
            translated = UntrustedPeer()
        case aiohttp.ClientHttpProxyError():
            translated = NotConnected(f"its proxy answered {error.status}")
        case aiohttp.ClientProxyConnectionError():
            translated = NotConnected(f"its proxy: {_reason_of(error.os_error)}")
        case aiohttp.ClientConnectorError(os_error=AddressRefused() as refused):
            translated = refused
        case aiohttp.ClientConnectorError():
            translated = NotConnected(_reason_of(error.os_error))
        case aiohttp.ClientConnectionError() | aiohttp.ClientPayloadError():
            translated = ConnectionBroken()
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError() | UnicodeError():
            translated = InvalidUrl()
        case ValueError():  # CR, LF or NUL in a header field
            translated = InvalidField()
    return translated


def _reason_of(error: OSError) -> str:
    """Return why a connection failed, without the addresses that asyncio names."""
    number = 0 if isinstance(error, ssl.SSLError) else error.errno or 0
    said = os.strerror(number) if number > 0 else error.strerror or str(error)
    return said or "it closed the connection"  # an event loop may raise an error without words
