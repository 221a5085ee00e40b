"""The moment from which a refinement has taken too long."""

import asyncio
from collections.abc import Callable


class Deadline:
    """Calls `passed` once the seconds since the start, `elapsed_s` of them gone, are over."""

    def __init__(self, elapsed_s: float, passed: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time() - elapsed_s
        self._passed = passed
        self._at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def set(self, max_seconds: float) -> None:
        """Have it pass that many seconds after the start, instead of whenever it would have."""
        at = self._started + max_seconds
        if at == self._at:
            return
        self.close()
        self._at = at
        self._timer = self._loop.call_at(at, self._passed)

    def close(self) -> None:
        """Have it never pass."""
        if self._timer:
            self._timer.cancel()
