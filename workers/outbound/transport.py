"""HTTP for models, validators and tools: a client on aiohttp, and requests that are tried again.

The client sends a request once; it never repeats one that a server may have read, since a POST is
not idempotent. Only `RequestAttempts` retries. Exceptions of the client are not chained: some carry
the request's headers, and with them a key.

What the client raises:

HttpError            no response, or not all of it
  NotConnected       no connection; nothing was sent. The message says why
    AddressRefused   it has no address that may be called
    UntrustedPeer    its TLS certificate is untrusted
  ConnectionBroken   closed or reset before the end of the response
  InvalidUrl         the URL is invalid
  InvalidField       a header field is invalid: it has a line end
  InvalidResponse    not HTTP, or a header field that is too long

What a request raises:

TransportError         no usable response; `detail` says why
  RequestUnanswered    unreachable, timeout, connection reset, or a temporary error at the last try
  RequestRefused       the address is invalid
    UntrustedServer    the TLS certificate is untrusted
    UnusableKey        a header field cannot be sent, which has the API key
    StatusRejected     a permanent 4xx, or a redirect: not followed, so that keys go nowhere else
  UnusableResponse     too many bytes, invalid compression, or not HTTP
"""

import asyncio
import json
import os
import random
import re
import select
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from io import BytesIO
from ipaddress import ip_address
from typing import ClassVar, Protocol, cast
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakSet

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import SocketFactoryType
from multidict import CIMultiDict
from yarl import URL

from app.contract.values import value
from app.telemetry import current_span

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


PASSING = frozenset({408, 409, 425, 429})
"""Statuses below 500 that are temporary: timeout, conflict, too early, too many requests."""

DECIMAL = re.compile(r"[0-9]{1,15}(\.[0-9]*)?")
MOST_ASKED = 1e8  # seconds: three years, after which there is still a date


@value(slots=True)
class RetryPolicy:
    """Limits of one step: seconds in total and to connect; at most `tries`.

    The backoff between tries is random, up to `backoff_s`, then up to twice that, and so on, and at
    most `longest_backoff_s` ("full jitter": AWS Architecture Blog, Exponential Backoff And Jitter).
    """

    total_s: float
    connect_s: float = 10.0
    tries: int = 3
    backoff_s: float = 0.5
    longest_backoff_s: float = 8.0
    random: Callable[[], float] = random.random

    def wait_s(self, failures: int, retry_after_s: float | None) -> float:
        """Return the seconds until the next try: the server's `Retry-After`, plus jitter."""
        most: float = min(self.backoff_s * 2.0 ** min(failures - 1, 30), self.longest_backoff_s)
        return (retry_after_s or 0.0) + self.random() * most


def may_pass(status: int, headers: Mapping[str, str]) -> bool:
    """Return whether an error is temporary, so that a retry may help.

    `x-should-retry: false` forbids the retry.
    """
    passing = status in PASSING or status >= 500
    return passing and headers.get("x-should-retry") != "false"


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a `Retry-After` field (RFC 9110, 10.2.3); None without a valid one.

    `retry-after-ms`, which is more exact, is read first. A date is compared with the server's own
    `Date`, so that machines' clocks do not matter. Numbers above `MOST_ASKED` count as that.
    """
    milliseconds = _not_negative(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("Retry-After", "").strip()
    if at := _date(value):
        seconds = (at - (_date(headers.get("Date", "")) or datetime.now(UTC))).total_seconds()
        return min(max(0.0, seconds), MOST_ASKED)
    return _not_negative(value)


def _not_negative(value: str) -> float | None:
    return min(float(value), MOST_ASKED) if DECIMAL.fullmatch(value) else None


def _date(value: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


FIELDS = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
    "User-Agent": "hone",
}
UNQUOTED = re.compile(r"[\w.~/:;=+-]*", re.ASCII)
"""Keys that a header field can carry as they are: nearly all."""

UNSENT = (NotConnected, InvalidField, InvalidUrl)
MOST_OF_A_REFUSAL = 64 * 1024
MOST_SHOWN = 500
MOST_FRAMING = 256
"""How many times as long as its text a stream may be: a chunk of one token has 150 to 400 bytes."""

TO_THE_END_S = 1.0
GZIP_OR_ZLIB = 47
"""`wbits` of zlib that accepts either header."""


SHORTEST_SECRET = 8


@value(slots=True)
class Request:
    """One POST. `secret` and `more_secrets` never appear in an error, whatever the server says.

    A secret of fewer than `SHORTEST_SECRET` characters, such as `none`, may be within words.
    """

    url: str
    headers: dict[str, str]
    body: bytes
    secret: str = field(default="", repr=False)
    more_secrets: tuple[str, ...] = field(default=(), repr=False)

    def shown(self, message: str) -> str:
        """Return at most 500 characters of what a server said, without the secrets.

        An escape in JSON may stand for half a surrogate pair, which is replaced.
        """
        for secret in filter(None, (self.secret, *self.more_secrets)):
            edges = ("", "") if len(secret) >= SHORTEST_SECRET else (r"(?<!\w)", r"(?!\w)")
            message = re.sub(re.escape(secret).join(edges), "***", message)
        return message[:MOST_SHOWN].encode(errors="replace").decode()

    @property
    def host(self) -> str:
        """The server's name and port for messages; `the URL` if it has none."""
        try:
            return urlsplit(self.url).netloc.rpartition("@")[2] or "the URL"
        except ValueError:
            return "the URL"


class TransportError(Exception):
    """A request without a usable response; `detail` says why."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class RequestUnanswered(TransportError):
    """Unreachable, timeout, connection reset, or still a temporary error at the last try.

    `response` is that error, None if there was no response.
    """

    def __init__(self, detail: str, response: "ErrorResponse | None" = None) -> None:
        super().__init__(detail)
        self.response = response


class RequestRefused(TransportError):
    """The request cannot be sent; a retry would not help."""


class UntrustedServer(RequestRefused):
    """The TLS certificate of the server is not trusted."""


class UnusableKey(RequestRefused):
    """A header field has a line end; of all the fields only the key is not Hone's own."""


@value(slots=True)
class ErrorResponse:
    """A response that is no 2xx.

    `said` is its body, empty if above 64 KiB. It may have the secret of the request: a short one
    cannot be masked in it without destroying the words by which the error is recognized.
    """

    status: int
    said: str
    fields: Mapping[str, str]


class StatusRejected(RequestRefused):
    """The server rejected the request with `response`."""

    def __init__(self, detail: str, response: ErrorResponse) -> None:
        super().__init__(detail)
        self.response = response


class UnusableResponse(TransportError):
    """The response is too large, compressed in an unknown or broken way, or not HTTP."""


class StreamFailed(Exception):
    """A response failed while it was streamed; `status` is what it would have been before it."""

    def __init__(self, detail: str, status: int, said: str = "") -> None:
        super().__init__(detail)
        self.status = status
        self.said = said


class ResponseReader(Protocol):
    """Reads one response piece by piece."""

    is_done: bool
    """Whether the server has said that nothing follows."""
    held_bytes: int

    @property
    def is_stream(self) -> bool:
        """Whether the server streams; one that was asked to may still answer whole."""

    @property
    def is_complete(self) -> bool:
        """Whether the reply is there, although the stream may not have ended."""

    def feed(self, piece: bytes) -> None:
        """Read the next piece. Raises `StreamFailed` and `UnusableResponse`."""

    def body(self) -> bytes:
        """Return what was read, after the last piece. Raises `StreamFailed` if it was cut off."""


class _TemporaryFailure(Exception):
    """A try failed in a way that a retry may fix."""

    def __init__(self, detail: str, response: ErrorResponse | None = None) -> None:
        super().__init__(detail)
        self.response = response


class Transport:
    """Shared by all adapters: a client for HTTP, and what its requests are held to."""

    def __init__(self, client: HttpClient, retry_policy: RetryPolicy, max_reply_bytes: int) -> None:
        self.client = client
        self.clock = asyncio.get_running_loop().time
        self.retry_policy = retry_policy
        self.max_reply_bytes = max_reply_bytes

    def step(self, key: str) -> "RequestAttempts":
        """Start a step, whose time runs from now; its requests carry `key` as `Idempotency-Key`."""
        return RequestAttempts(self, key)


@asynccontextmanager
async def open_transport(
    retry_policy: RetryPolicy, max_reply_bytes: int
) -> AsyncIterator[Transport]:
    """Open a transport to the operator's servers, by the proxies that the environment names."""
    async with open_session() as session:
        client = AiohttpClient(session, retry_policy.connect_s, proxies_of_environment())
        yield Transport(client, retry_policy, max_reply_bytes)


class RequestAttempts:
    """The requests of one step, which share one deadline and one number of tries.

    `calls` counts requests, without those that an error response refused; `may_have_cost` is true
    when the server may have processed one, `was_sent` when one may have reached it, `has_begun`
    when a 2xx response began, and `has_timed_out` when one got no response in time; `fields` are
    the header fields of the last 2xx response, and `status` is the status of the last response.
    """

    def __init__(self, transport: Transport, key: str) -> None:
        self.calls = 0
        self.may_have_cost = self.was_sent = self.has_begun = False
        self.fields: Mapping[str, str] = {}
        self.status: int | None = None
        self.has_timed_out = False
        self._transport = transport
        self._retry_policy = transport.retry_policy
        self._key = key if UNQUOTED.fullmatch(key) else quote(key, safe="/:;=+.-_")
        self._clock = transport.clock
        self._deadline = self._clock() + self._retry_policy.total_s
        self._failures = 0

    async def post(
        self,
        request: Request,
        variant: str = "",
        open_reader: Callable[[], ResponseReader] | None = None,
    ) -> bytes:
        """Return the body of a 2xx response; retry temporary errors. Raises `TransportError`.

        A request that differs from an earlier one of the step needs a `variant` of the key. With
        `open_reader` it is the body that a reader has made of the response; every try has one of
        its own. The limit on bytes counts those that the reader holds, and the time of the step is
        a limit on silence: it begins again with every piece of a stream.
        """
        while True:
            reader = open_reader and open_reader()
            try:
                return await self._exchange(request, variant, reader)
            except (HttpError, TimeoutError, _TemporaryFailure) as error:
                failure = self._temporary(request, error)
            if reader is not None and reader.is_complete and failure.response is None:
                return reader.body()  # lost after the reply: it is there, and was paid for
            self._failures += 1
            await self._wait(failure)

    async def _wait(self, failure: _TemporaryFailure) -> None:
        if self._failures >= self._retry_policy.tries:
            often = f"; failed {self._failures} times" if self._failures > 1 else ""
            raise RequestUnanswered(f"{failure}{often}", failure.response) from None
        after_s = retry_after_s(failure.response.fields) if failure.response else None
        wait_s = self._retry_policy.wait_s(self._failures, after_s)
        if self._clock() + wait_s >= self._deadline:
            detail = f"{failure}; no time is left for a retry"
            raise RequestUnanswered(detail, failure.response) from None
        await asyncio.sleep(wait_s)

    async def _exchange(
        self, request: Request, variant: str, reader: ResponseReader | None
    ) -> bytes:
        """Send the request once. Raises also what the client raises, and `TimeoutError`."""
        self.calls += 1
        headers = CIMultiDict(FIELDS)
        if (place := current_span().context) is not None:
            headers.update(place.fields())
        headers.update(request.headers)
        headers[IDEMPOTENCY_KEY] = self._key + variant
        async with asyncio.timeout_at(self._deadline) as timeout:
            reply = await self._transport.client.post(request.url, headers, request.body)
            try:
                self.status = reply.status
                if not 200 <= reply.status < 300:
                    self.calls -= 1
                    raise await _refusal(request, reply)
                self.may_have_cost = self.has_begun = True
                self.fields = reply.fields
                if reader is None:
                    return await _read(reply, self._transport.max_reply_bytes, request)
                await self._read_stream(request, reply, reader, timeout)
                return reader.body()
            except StreamFailed as failed:
                raise _failure_of(request, failed) from None
            finally:
                reply.close()

    def _temporary(
        self, request: Request, error: HttpError | TimeoutError | _TemporaryFailure
    ) -> _TemporaryFailure:
        """Return what failed and may be tried again; raise the `TransportError` of the rest."""
        self.was_sent = self.was_sent or not isinstance(error, UNSENT)
        match error:
            case _TemporaryFailure():
                return error
            case UntrustedPeer():
                raise UntrustedServer(f"{request.host} has an untrusted TLS certificate") from None
            case AddressRefused():
                detail = f"{request.host} is unreachable: {error.strerror}"
                raise RequestRefused(detail) from None
            case NotConnected():
                return _TemporaryFailure(f"{request.host} is unreachable: {error}")
            case InvalidField():
                detail = f"a header field for {request.host} has a line end, perhaps in the API key"
                raise UnusableKey(detail) from None
            case InvalidUrl():
                raise RequestRefused(f"{request.host} is not a valid server address") from None
        self.may_have_cost = True
        if isinstance(error, TimeoutError):
            self.has_timed_out = True
            return _TemporaryFailure(f"{request.host} did not respond before the timeout")
        if isinstance(error, ConnectionBroken):
            return _TemporaryFailure(f"{request.host} reset the connection")
        detail = f"{request.host} did not send a valid HTTP response"
        raise UnusableResponse(detail) from None

    async def _read_stream(
        self,
        request: Request,
        reply: HttpResponse,
        reader: ResponseReader,
        timeout: asyncio.Timeout,
    ) -> None:
        """Pass on every piece, which puts off the deadline, until the reader is done.

        Raises `UnusableResponse` above the limit on bytes: for a piece that the decoder may have
        cut, too, unless nothing is needed that follows it.
        """
        most, total = self._transport.max_reply_bytes, 0
        decoded = _decoder(reply, most, request)
        while sent := await reply.read():
            piece = decoded(sent) if decoded else sent
            total += len(piece)
            reader.feed(piece)
            if reader.is_stream:
                self._deadline = self._clock() + self._retry_policy.total_s
                timeout.reschedule(self._deadline)
            is_cut = len(piece) > most and not reader.is_done
            if is_cut or reader.held_bytes > most or total > most * MOST_FRAMING:
                raise UnusableResponse(f"{request.host} sent more than {most} bytes")
            if reader.is_done:
                break
        if reader.is_stream and not reply.is_whole:  # only then is its connection kept
            with suppress(TimeoutError):
                async with asyncio.timeout(TO_THE_END_S):
                    while await reply.read():
                        pass


def _failure_of(request: Request, failed: StreamFailed) -> StatusRejected | _TemporaryFailure:
    """Return the error for a response that failed while it was streamed."""
    detail = f"{request.host} failed while it answered: {request.shown(str(failed))}"
    response = ErrorResponse(failed.status, failed.said, {})
    if may_pass(failed.status, {}):
        return _TemporaryFailure(detail, response)
    return StatusRejected(detail, response)


async def _refusal(request: Request, reply: HttpResponse) -> StatusRejected | _TemporaryFailure:
    try:
        body = await _read(reply, MOST_OF_A_REFUSAL, request)
    except UnusableResponse:
        body = b""
    said = body.decode(errors="replace")
    detail = f"{request.host} answered {reply.status}"
    response = ErrorResponse(reply.status, said, reply.fields)
    if 300 <= reply.status < 400:
        return StatusRejected(f"{detail}, a redirect; redirects are not followed", response)
    if message := _message(said):
        detail = f"{detail}: {request.shown(message)}"
    if may_pass(reply.status, reply.fields):
        return _TemporaryFailure(detail, response)
    return StatusRejected(detail, response)


async def _read(reply: HttpResponse, most: int, request: Request) -> bytes:
    """Return a body of at most `most` bytes, counted after decompression."""
    decoded = _decoder(reply, most, request)
    pieces, total = [], 0
    while piece := await reply.read():
        pieces.append(decoded(piece) if decoded else piece)
        total += len(pieces[-1])
        if total > most:
            raise UnusableResponse(f"{request.host} sent more than {most} bytes")
        if reply.is_whole:  # what has arrived was read at once
            break
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _decoder(reply: HttpResponse, most: int, request: Request) -> Callable[[bytes], bytes] | None:
    """Return what decompresses the pieces of a body, each to at most `most` + 1 bytes.

    None for a body that is not compressed.
    """
    encoding = reply.fields.get("Content-Encoding", "identity").lower()
    if encoding == "identity":
        return None
    if encoding not in {"gzip", "deflate"}:
        raise UnusableResponse(f"{request.host} sent the unsupported encoding {encoding[:20]!r}")
    inflate = zlib.decompressobj(GZIP_OR_ZLIB)

    def decompressed(piece: bytes) -> bytes:
        try:
            return inflate.decompress(piece, most + 1)
        except zlib.error:
            raise UnusableResponse(f"{request.host} sent invalid compressed data") from None

    return decompressed


def _message(said: str) -> str:
    """Return the message of an error response in any common form."""
    try:
        body = json.loads(said)
    except (ValueError, RecursionError):
        return said.strip()
    for name in ("error", "message", "detail"):
        if isinstance(body, dict) and body.get(name):
            body = body[name]
            if name != "error" or isinstance(body, str):
                break
    return body if isinstance(body, str) else json.dumps(body)
