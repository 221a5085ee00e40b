"""Counts what tenants with quotas use, and records who did what."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Self
from uuid import uuid4

from app.contract.errors import HoneError, QuotaExceeded, TooManyRequests
from app.store import refusals
from app.store.access import AccessStore

_log = logging.getLogger(__name__)

MINUTE_S = 60
RENEWED_S = 10.0
COUNTED_S = 1.0
"""Seconds between two writes of how many requests were refused: a flood costs one a key."""

RETRY_AFTER_S = 5

MOST_STREAMS = 1_000
"""Event streams that a tenant without the quota `watchers` may have open at one API process."""


@dataclass(frozen=True, slots=True)
class RequestsLeft:
    """How many requests a tenant may still make, and in how many seconds it may make `most`.

    `left` is negative after one too many.
    """

    most: int
    left: int
    reset_s: int

    def headers(self) -> dict[str, str]:
        """Return the fields of draft-ietf-httpapi-ratelimit-headers-10."""
        left = max(0, self.left)
        return {
            "ratelimit-policy": f'"requests";q={self.most};w={MINUTE_S}',
            "ratelimit": f'"requests";r={left};t={self.reset_s}',
        }

    def require(self) -> None:
        """Raise TooManyRequests if it was one too many."""
        if self.left < 0:
            allowed = (
                f"{self.most} requests a minute are allowed; the quota `requests_per_minute` sets"
                " how many"
            )
            raise TooManyRequests(allowed, retry_after_s=self.reset_s)


class Metering:
    """Counts for all API processes together."""

    def __init__(self, store: AccessStore, most_streams: int = MOST_STREAMS) -> None:
        self._store = store
        self._most_streams = most_streams
        self._open: Counter[str] = Counter()
        self._streams: dict[str, str] = {}
        self._refused: Counter[tuple[str, str, int]] = Counter()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Renew the counts for as long as this meter is open."""
        self._tasks = [asyncio.create_task(work) for work in (self._renew(), self._keep_counting())]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop; open requests count for another half minute."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        await self._record_refused()

    async def count_request(self, tenant: str, most: int, now_ms: int) -> RequestsLeft:
        """Count a request in this minute of UTC."""
        with refusals():
            number = await self._store.count_request(tenant, now_ms)
        reset_s = MINUTE_S - now_ms // 1000 % MINUTE_S
        return RequestsLeft(most, most - number, reset_s)

    def stream(self, tenant: str, most: int | None) -> AbstractAsyncContextManager[None]:
        """Count an event stream until the context ends; it raises QuotaExceeded for one too many.

        `most` is the quota of all API processes; without one those of this process count.
        """
        return self._open_here(tenant) if most is None else self._counted(tenant, most)

    @asynccontextmanager
    async def _open_here(self, tenant: str) -> AsyncIterator[None]:
        if self._open[tenant] >= self._most_streams:
            raise QuotaExceeded(
                f"{self._most_streams} event streams may be open at a time at one API process:"
                " close one; the quota `watchers` sets how many",
                retry_after_s=RETRY_AFTER_S,
            )
        self._open[tenant] += 1
        try:
            yield
        finally:
            self._open[tenant] -= 1

    @asynccontextmanager
    async def _counted(self, tenant: str, most: int) -> AsyncIterator[None]:
        stream = uuid4().hex
        with refusals():
            if not await self._store.open_watch(tenant, stream, most):
                raise QuotaExceeded(
                    f"{most} event streams may be open at a time: close one; the quota `watchers`"
                    " sets how many",
                    retry_after_s=RETRY_AFTER_S,
                )
        self._streams[stream] = tenant
        try:
            yield
        finally:
            del self._streams[stream]
            with suppress(HoneError), refusals():
                await self._store.close_watch(tenant, stream)

    async def record(self, tenant: str, by: str, action: str, about: str) -> None:
        """Add an action that was done to the audit log; while Redis is away, to this log."""
        try:
            with refusals():
                await self._store.record(tenant, by, action, about)
        except HoneError as error:
            _log.error("not in the audit log: %s %s %s %s: %s", tenant, by, action, about, error)

    def refused(self, tenant: str, by: str, status: int) -> None:
        """Count a refused request for the audit log, which has it within a second or two."""
        self._refused[tenant, by, status] += 1

    async def _keep_counting(self) -> None:
        while True:
            await asyncio.sleep(COUNTED_S)
            await self._record_refused()

    async def _record_refused(self) -> None:
        refused, self._refused = self._refused, Counter()
        for (tenant, by, status), count in refused.items():
            try:
                with refusals():
                    await self._store.count_action(tenant, by, "refused", str(status), count)
            except HoneError as error:
                refusal = (tenant, by, count, status, error)
                _log.error("not in the audit log: %s %s refused %d x %d: %s", *refusal)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEWED_S)
            if self._streams:
                with suppress(HoneError), refusals():
                    await self._store.renew_watches(dict(self._streams))
