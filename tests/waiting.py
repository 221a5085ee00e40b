"""Waiting for what other processes do, within a bound that only a failure reaches."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

TIMEOUT_S = 150.0

LEASE_S = 600.0
"""A lease that no process outlives by being paused; half of one, after an outage, neither."""


def eventually(condition: Callable[[], bool]) -> bool:
    """Return whether `condition` became true within `TIMEOUT_S`."""
    give_up = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True


def skipping_clock() -> Callable[[float], None]:
    """Return what lets seconds pass at once for everything on the running event loop."""
    loop = asyncio.get_running_loop()
    real, ahead_s = loop.time, [0.0]
    vars(loop)["time"] = lambda: real() + ahead_s[0]

    def skip(seconds: float) -> None:
        ahead_s[0] += seconds

    return skip


async def turns(number: int = 100) -> None:
    """Let the event loop turn so often: what has arrived at a socket is read by then."""
    for _ in range(number):
        await asyncio.sleep(0)


def today() -> date:
    """Return the day in UTC; in its last minute wait for the next, so that a test has one day."""
    while (soon := datetime.now(UTC) + timedelta(minutes=1)).date() != datetime.now(UTC).date():
        time.sleep(60 - soon.timestamp() % 60)
    return soon.date()
