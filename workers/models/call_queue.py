"""Calls that wait for a permit: tenants take turns; of each, the furthest along goes first."""

import asyncio
import heapq
from itertools import count


class CallQueue:
    """Futures by tenant; one that is done or discarded is skipped."""

    def __init__(self) -> None:
        self._tenants: dict[str, list[tuple[int, int, asyncio.Future[None]]]] = {}
        self._numbers = count()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def push(self, tenant: str, progress: int, waiting: asyncio.Future[None]) -> None:
        """Add a call; among those with the same progress the first one goes first."""
        calls = self._tenants.setdefault(tenant, [])
        heapq.heappush(calls, (-progress, next(self._numbers), waiting))
        self._length += 1

    def discard(self) -> None:
        """Count one less: a future was cancelled."""
        self._length -= 1

    def pop(self) -> asyncio.Future[None] | None:
        """Return the next call; its tenant goes to the end of the line."""
        while self._tenants:
            tenant = next(iter(self._tenants))
            calls = self._tenants.pop(tenant)
            found = None
            while calls and found is None:
                *_, waiting = heapq.heappop(calls)
                found = None if waiting.done() else waiting
            if calls:
                self._tenants[tenant] = calls
            if found is not None:
                self._length -= 1
                return found
        return None
