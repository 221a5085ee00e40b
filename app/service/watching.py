"""Waiting for news of a refinement, until there is some or this process shuts down."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Container
from dataclasses import dataclass

from app.contract.errors import MalformedHeader, RefinementNotFound, Unavailable
from app.contract.snapshot import Snapshot
from app.store import ChangeSignal, Store, StoredEvent, Wakeups


class Shutdown:
    """Open until `close`, which ends every wait for news of a refinement."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Timeout] = set()
        self._open = True

    @property
    def is_open(self) -> bool:
        """Whether clients may still wait."""
        return self._open

    def close(self) -> None:
        """End every wait. To be called on the event loop; again is harmless."""
        self._open = False
        for scope in self._waiting:
            scope.reschedule(0)  # long past: at once

    async def news(self, changed: ChangeSignal, timeout_s: float) -> bool:
        """Return True when something changed, False after `timeout_s` or at `close`."""
        if not self._open or timeout_s <= 0:
            return False
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._waiting.add(scope)
                return await changed.wait(timeout_s)
        except TimeoutError:
            return False
        finally:
            self._waiting.discard(scope)


LOOK_S = 15.0
"""Seconds after which a watcher looks by itself: a wake-up can be missed."""

Events = tuple[StoredEvent, ...]

BATCH = 8
"""Events that are read for a watcher at a time: a slow one holds no more of them in memory."""


@dataclass(frozen=True, slots=True)
class News:
    """A snapshot, and whether it tells more than was known."""

    snapshot: Snapshot
    is_new: bool


class Watching:
    """Watches on behalf of clients. A watcher holds no connection to Redis."""

    def __init__(self, store: Store, wakeups: Wakeups, shutdown: Shutdown) -> None:
        self._store = store
        self._wakeups = wakeups
        self._shutdown = shutdown

    async def until(
        self, tenant: str, refinement_id: str, done: Callable[[Snapshot], bool], wait_s: float
    ) -> Snapshot:
        """Return the snapshot as soon as it is `done`, or as it is after `wait_s`."""
        if wait_s <= 0:
            return await self._store.snapshot(tenant, refinement_id)
        deadline = time.monotonic() + wait_s
        async with self._wakeups.watch(refinement_id) as changed:
            while True:
                snapshot = await self._store.snapshot(tenant, refinement_id)
                left_s = deadline - time.monotonic()
                if done(snapshot) or left_s <= 0 or not self._shutdown.is_open:
                    return snapshot
                await self._shutdown.news(changed, min(left_s, LOOK_S))

    async def news(
        self, tenant: str, refinement_id: str, seen: Container[int] | None, wait_s: float
    ) -> News:
        """Return the snapshot once its last event is not among `seen`, or after `wait_s`.

        `seen` None stands for what it is now; what has ended is returned at once.
        """
        if seen is None:
            now = await self._store.snapshot(tenant, refinement_id)
            if wait_s <= 0 or now.status.is_terminal:
                return News(now, is_new=True)
            seen = frozenset({now.last_event})
        latest = await self.until(
            tenant,
            refinement_id,
            lambda snapshot: snapshot.last_event not in seen or snapshot.status.is_terminal,
            wait_s,
        )
        return News(latest, is_new=latest.last_event not in seen)

    async def follow(
        self, tenant: str, refinement_id: str, after: int
    ) -> AsyncGenerator[Events, None] | None:
        """Return all events after number `after`, as they come, up to the terminal one.

        No events at a time say that nothing came for a while. Returns None at once when there is
        nothing left to see. MalformedHeader for a number that was not given out yet.
        """
        first = await self._store.events(tenant, refinement_id, after, BATCH)
        if not first:
            snapshot = await self._store.snapshot(tenant, refinement_id)
            if after > snapshot.last_event:
                raise MalformedHeader(f"there is no event {after} yet, only {snapshot.last_event}")
            if snapshot.status.is_terminal and after == snapshot.last_event:
                return None
        return self._follow(tenant, refinement_id, after, first)

    async def _follow(
        self, tenant: str, refinement_id: str, after: int, events: Events
    ) -> AsyncGenerator[Events, None]:
        more: Events | None = events
        async with self._wakeups.watch(refinement_id) as changed:
            changed.set()  # the first events were read before anybody watched
            while more is not None:
                if more:
                    yield more
                    if more[-1].type.is_terminal:
                        return
                    after = more[-1].number
                if len(more) < BATCH and not await self._shutdown.news(changed, LOOK_S):
                    yield ()
                if not self._shutdown.is_open:
                    return
                more = await self._more(tenant, refinement_id, after)

    async def _more(self, tenant: str, refinement_id: str, after: int) -> Events | None:
        """Return what is new; nothing while Redis is away, None once the refinement is erased."""
        try:
            return await self._store.events(tenant, refinement_id, after, BATCH)
        except Unavailable:
            return ()
        except RefinementNotFound:
            return None
