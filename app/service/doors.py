"""Whether this process still serves, and waiting that ends when it no longer does."""

import asyncio

from app.store import Changed


class Doors:
    """Open until `close`; whoever waits for news of a refinement stops waiting then."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Timeout] = set()
        self._open = True

    @property
    def are_open(self) -> bool:
        return self._open

    def close(self) -> None:
        """Serve nobody longer than needed. To be called on the event loop; again is harmless."""
        self._open = False
        for scope in self._waiting:
            scope.reschedule(0)  # long past: at once

    async def news(self, changed: Changed, timeout_s: float) -> bool:
        """Return True when something changed, False after `timeout_s` or when the doors close."""
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
