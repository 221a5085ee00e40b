"""Waits for models and endpoints: which branches wait, until when, and the limits of time."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from app.contract.limits import Limits, TimeLimit
from app.store import Claimed

PARK_AFTER_S = 5.0
"""A refinement whose branches all wait for as long as this needs no worker meanwhile."""


class EveryBranchWaits(Exception):
    """Nothing can go on for `PARK_AFTER_S` seconds: this claim ends.

    `keys` are those of the steps that wait, `models` those that they wait for.
    """

    def __init__(self, keys: tuple[str, ...], models: tuple[str, ...]) -> None:
        super().__init__(f"waiting for {', '.join(models)}")
        self.keys = keys
        self.models = models


class TimeLimits:
    """The timer of `max_seconds`, `max_wait_seconds` and the deadline of a claimed refinement.

    While every branch waits only `max_wait_seconds` counts, else only `max_seconds`; the deadline
    always does. Times are those of Redis at the claim, and from then on of the event loop.
    """

    def __init__(self, claimed: Claimed) -> None:
        self._loop = asyncio.get_running_loop()
        self._claimed_at, self._claimed = self._loop.time(), claimed.at
        self._played_from = self._claimed_at - claimed.elapsed_s
        self._waited_s = claimed.waited_s
        self._waits_since: float | None = None
        self._deadline = None if claimed.left_s is None else self._claimed_at + claimed.left_s
        self._limits: Limits | None = None
        self._due: tuple[float, TimeLimit] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def waited_s(self) -> float:
        """Return for how many seconds nothing went on because every branch waited."""
        since = self._waits_since
        return self._waited_s + (0.0 if since is None else self._loop.time() - since)

    def time_in(self, seconds: float) -> datetime:
        """Return the time of Redis in so many seconds."""
        return self._claimed + timedelta(seconds=self._loop.time() - self._claimed_at + seconds)

    def set(self, limits: Limits, passed: Callable[[TimeLimit], None], *, waits: bool) -> None:
        """Call `passed` at the first limit, by these limits; this replaces the timer before.

        Only the timer refers to `passed`: a reference here would form a cycle with its owner, and
        the data of an ended refinement would wait for the garbage collector (docs/adr/0004).
        """
        if limits is self._limits and waits == (self._waits_since is not None):
            return  # nothing that the timer depends on has changed
        self._limits = limits
        self._switch(waits)
        due = self._first(limits)
        if due == self._due:
            return
        self.close()
        self._due = due
        self._timer = self._loop.call_at(due[0], passed, due[1])

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer:
            self._timer.cancel()

    def _switch(self, waits: bool) -> None:
        now = self._loop.time()
        if waits and self._waits_since is None:
            self._waits_since = now
        elif not waits and self._waits_since is not None:
            self._waited_s += now - self._waits_since
            self._played_from += now - self._waits_since
            self._waits_since = None

    def _first(self, limits: Limits) -> tuple[float, TimeLimit]:
        due: tuple[float, TimeLimit] = (self._played_from + limits.max_seconds, "max_seconds")
        if self._waits_since is not None:
            longest = self._waits_since + limits.max_wait_seconds - self._waited_s
            due = (longest, "max_wait_seconds")
        return due if self._deadline is None else min(due, (self._deadline, "deadline"))


class BranchWaits:
    """The parts of a strategy that go on side by side, and which of them wait."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._branches = 1
        self._waits: dict[str, tuple[float, tuple[str, ...]]] = {}
        self._parked: EveryBranchWaits | None = None
        self._interrupted = asyncio.Event()

    @property
    def is_everywhere(self) -> bool:
        """Whether every branch waits."""
        return 0 < self._branches == len(self._waits)

    def has(self, key: str) -> bool:
        """Return whether a step waits."""
        return key in self._waits

    def split(self, parts: int) -> None:
        """Count a branch as so many parts side by side."""
        self._branches += parts - 1

    def ended(self) -> None:
        """Count a part that has ended; it may be the one that kept the others here."""
        self._branches -= 1
        self._look()

    def join(self) -> None:
        """Count the branch that goes on after its parts."""
        self._branches += 1

    @contextmanager
    def waiting(self, key: str, wait_s: float, models: tuple[str, ...]) -> Iterator[None]:
        """Count a branch as waiting, for the models that its step waits for."""
        self._waits[key] = self._loop.time() + wait_s, models
        self._look()
        try:
            yield
        finally:
            del self._waits[key]

    async def over(self, key: str) -> None:
        """Return when the wait of a step is over, or when all waits are interrupted.

        Raises `EveryBranchWaits` as soon as every branch waits for `PARK_AFTER_S` or longer.
        """
        try:
            async with asyncio.timeout_at(self._waits[key][0]):
                await self._interrupted.wait()
        except TimeoutError:
            return
        if self._parked:
            raise self._parked

    def interrupt(self) -> None:
        """Let all waits end at once, those that begin later included."""
        self._interrupted.set()

    @property
    def is_parked(self) -> bool:
        """Whether every branch has waited for long, and the claim ends."""
        return self._parked is not None

    def _look(self) -> None:
        if not self.is_everywhere or self._parked:
            return
        soonest = min(until for until, _ in self._waits.values())
        if soonest - self._loop.time() >= PARK_AFTER_S:
            models = dict.fromkeys(it for _, models in self._waits.values() for it in models)
            self._parked = EveryBranchWaits(tuple(self._waits), tuple(models))
            self._interrupted.set()
