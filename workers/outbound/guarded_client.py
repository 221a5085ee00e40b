"""Callers' endpoints: signed calls to public addresses, and nothing else.

Signed as Standard Webhooks 1.0 (https://www.standardwebhooks.com): `webhook-id`,
`webhook-timestamp`, and `webhook-signature: v1,<base64>`, an HMAC-SHA256 of
`<id>.<timestamp>.<body>` under the server's secret key.
"""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.connector import SocketFactoryType

from workers.outbound.addresses import public_socket
from workers.outbound.transport import FIELDS, Request, RetryPolicy, Transport, TransportError

MAX_REPLY = 256 * 1024
PREFIX = "whsec_"


class EndpointUnavailable(Exception):
    """There is no answer that can be used; `detail` says why."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class EndpointClient(Protocol):
    """The way to callers' endpoints: `GuardedClient`, or a function in the place of all of them."""

    async def post(self, url: str, body: bytes, key: str, timeout_s: float) -> bytes: ...


class GuardedClient:
    """Posts JSON, several tries within the time of a call, each with the same id and key."""

    def __init__(
        self, session: aiohttp.ClientSession, secret_key: str, clock: Callable[[], float]
    ) -> None:
        self._session = session
        self._key = signing_key(secret_key)
        self._clock = clock

    async def post(self, url: str, body: bytes, key: str, timeout_s: float) -> bytes:
        """Return the body of a 2xx reply, at most `MAX_REPLY` bytes. Raises `EndpointUnavailable`.

        `key` is the same whenever the same step is taken again.
        """
        retry_policy = RetryPolicy(total_s=timeout_s, connect_s=min(5.0, timeout_s))
        request = Request(url, signed(self._key, body, key, int(self._clock())), body)
        try:
            return await Transport(self._session, retry_policy, MAX_REPLY).step(key).post(request)
        except TransportError as error:
            raise EndpointUnavailable(error.detail) from None


@asynccontextmanager
async def open_endpoints(
    secret_key: str,
    *,
    socket_factory: SocketFactoryType = public_socket,
    resolver: AbstractResolver | None = None,
    clock: Callable[[], float] = time.time,
) -> AsyncIterator[GuardedClient]:
    """Keep the way to endpoints open. Every socket comes from `socket_factory`, which may refuse.

    No connection is kept: an endpoint's next address is looked at again.
    """
    connector = aiohttp.TCPConnector(
        limit=0, force_close=True, resolver=resolver, socket_factory=socket_factory
    )
    session = aiohttp.ClientSession(
        connector=connector,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers=FIELDS,
    )
    async with session:
        yield GuardedClient(session, secret_key, clock)


def signing_key(secret_key: str) -> bytes:
    """Return the bytes of a secret: base64 after `whsec_`, or else its UTF-8."""
    if secret_key.startswith(PREFIX):
        try:
            return base64.b64decode(secret_key.removeprefix(PREFIX), validate=True)
        except binascii.Error:
            return secret_key.encode()
    return secret_key.encode()


def signed(key: bytes, body: bytes, step: str, timestamp: int) -> dict[str, str]:
    """Return the fields that say who calls, when, and for which step."""
    message_id = f"msg_{hashlib.sha256(step.encode()).hexdigest()[:32]}"
    content = f"{message_id}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{signature}",
    }
