"""The signing secrets of endpoints: derived, never stored. Redis has only which one is in force."""

import asyncio
import base64
import hmac
import time
from collections.abc import Sequence
from hashlib import sha256
from urllib.parse import urlsplit

from app.contract.endpoints import PREFIX
from app.contract.values import value
from app.store.redis import keys
from app.store.redis.committer import Commands, redis_time_ms
from app.store.redis.connection import refusals

READ_AGAIN_S = 5.0
MOST_REMEMBERED = 1_000


def url_without_query(url: str) -> str:
    """Return scheme, host, port and path of a URL, which identify an endpoint."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path or '/'}"


def endpoint_id(tenant: str, url: str) -> str:
    """Return the id of a tenant's endpoint."""
    named = f"{tenant}\n{url_without_query(url)}"
    return f"ep_{sha256(named.encode()).hexdigest()[:24]}"


class EndpointSecrets:
    """The secrets of all endpoints under one key: `whsec_` and the base64 of 32 bytes.

    Of several keys the first is that of the secrets that are shown. Secrets under the others sign
    as well.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = keys

    def secret(self, tenant: str, url: str, number: int, *, key: int = 0) -> str:
        """Return one secret of an endpoint; they are numbered from 0."""
        about = f"{tenant}\n{url_without_query(url)}\n{number}"
        digest = hmac.digest(self._keys[key], about.encode(), "sha256")
        return PREFIX + base64.b64encode(digest).decode()

    def in_force(self, tenant: str, url: str, number: int, *, has_overlap: bool) -> tuple[str, ...]:
        """Return the secrets that sign: the one with this number, and perhaps the one before."""
        numbers = (number, number - 1) if has_overlap and number > 0 else (number,)
        return tuple(
            self.secret(tenant, url, place, key=key)
            for key in range(len(self._keys))
            for place in numbers
        )


@value(slots=True)
class EndpointSigning:
    """The secrets that sign a call, the newest first, and the time: seconds since 1970 by Redis."""

    secrets: tuple[str, ...]
    at: float


class SigningSecrets:
    """What signs the calls of a worker; a rotation is noticed within `READ_AGAIN_S` seconds.

    Without a committer no secret was ever rotated, and the clock is that of the machine.
    """

    def __init__(self, committer: Commands | None, secrets: EndpointSecrets) -> None:
        self._committer = committer
        self._secrets = secrets
        self._known: dict[str, tuple[float, EndpointSigning]] = {}

    async def of(self, tenant: str, url: str) -> EndpointSigning:
        """Return what signs a call of an endpoint now; raise Unavailable."""
        clock = asyncio.get_running_loop().time
        known_as = endpoint_id(tenant, url)
        known = self._known.get(known_as)
        if known is None or clock() - known[0] > READ_AGAIN_S:
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            read = await self._read(tenant, url, known_as)
            known = self._known[known_as] = clock(), read
        read_at, read = known
        return EndpointSigning(read.secrets, read.at + clock() - read_at)

    async def _read(self, tenant: str, url: str, known_as: str) -> EndpointSigning:
        number, until, now_ms = b"0", b"0", round(time.time() * 1000)
        if self._committer is not None:
            name, fields = keys.endpoint(tenant, known_as), ("secret", "previous_until")
            with refusals():
                number, until = await self._committer.execute("HMGET", name, *fields)
                now_ms = await redis_time_ms(self._committer)
        has_overlap = int(until or 0) > now_ms
        found = self._secrets.in_force(tenant, url, int(number or 0), has_overlap=has_overlap)
        return EndpointSigning(found, now_ms / 1000)
