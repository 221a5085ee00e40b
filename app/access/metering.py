"""Counts what tenants with quotas use, and records who did what."""

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import Self
from uuid import uuid4

from app.contract.errors import HoneError, QuotaExceeded, TooManyRequests
from app.store import AccessStore, refusals

_log = logging.getLogger(__name__)

MINUTE_S = 60
RENEWED_S = 10.0
RETRY_AFTER_S = 5


@dataclass(frozen=True, slots=True)
class RequestsLeft:
    """How many requests a tenant may still make, and in how many seconds it may make `most`."""

    most: int
    left: int
    reset_s: int

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the fields of draft-ietf-httpapi-ratelimit-headers-10."""
        policy, now = f'"requests";q={self.most};w={MINUTE_S}', f"r={self.left};t={self.reset_s}"
        return [
            (b"ratelimit-policy", policy.encode()),
            (b"ratelimit", f'"requests";{now}'.encode()),
        ]


class Metering:
    """Counts for all API processes together."""

    def __init__(self, store: AccessStore) -> None:
        self._store = store
        self._streams: dict[str, str] = {}
        self._renewing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Renew what is counted for as long as it is open."""
        self._renewing = asyncio.create_task(self._renew())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop; what is still open counts for half a minute."""
        assert self._renewing is not None
        self._renewing.cancel()
        await asyncio.wait([self._renewing])

    async def count_request(self, tenant: str, most: int, now_ms: int) -> RequestsLeft:
        """Count a request; raise TooManyRequests if it is one too many in this minute of UTC."""
        with refusals():
            number = await self._store.count_request(tenant, now_ms)
        reset_s = MINUTE_S - now_ms // 1000 % MINUTE_S
        if number > most:
            raise TooManyRequests(f"{most} requests a minute are allowed", retry_after_s=reset_s)
        return RequestsLeft(most, most - number, reset_s)

    async def open_stream(self, tenant: str, most: int) -> str:
        """Count an event stream and return its id; raise QuotaExceeded if it is one too many."""
        stream = uuid4().hex
        with refusals():
            if not await self._store.open_watch(tenant, stream, most):
                raise QuotaExceeded(
                    f"{most} event streams may be open at a time", retry_after_s=RETRY_AFTER_S
                )
        self._streams[stream] = tenant
        return stream

    async def record(self, tenant: str, by: str, action: str, about: str) -> None:
        """Add an action that was done to the audit log; while Redis is away, to this log."""
        try:
            with refusals():
                await self._store.record(tenant, by, action, about)
        except HoneError as error:
            _log.error("not in the audit log: %s %s %s %s: %s", tenant, by, action, about, error)

    async def close_stream(self, stream: str) -> None:
        """Count a stream no longer; while Redis is away it goes by itself after a while."""
        tenant = self._streams.pop(stream)
        with suppress(HoneError), refusals():
            await self._store.close_watch(tenant, stream)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEWED_S)
            if self._streams:
                with suppress(HoneError), refusals():
                    await self._store.renew_watches(dict(self._streams))
