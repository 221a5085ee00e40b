"""The moment from which a refinement has taken too long."""

import asyncio
from collections.abc import Callable


class Deadline:
    """Says when the seconds since the start, `elapsed_s` of them gone, are over."""

    def __init__(self, elapsed_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time() - elapsed_s
        self._at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def set(self, max_seconds: float, passed: Callable[[], None]) -> None:
        """Have `passed` called that many seconds after the start, instead of whenever it would be.

        Only the timer holds `passed`: kept here it would tie its owner and this into a cycle, and
        what an ended refinement said would wait for the garbage collector (docs/adr/0004).
        """
        at = self._started + max_seconds
        if at == self._at:
            return
        self.close()
        self._at = at
        self._timer = self._loop.call_at(at, passed)

    def close(self) -> None:
        """Have it never pass."""
        if self._timer:
            self._timer.cancel()
