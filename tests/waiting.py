"""Waiting for what other processes do, within a bound that only a failure reaches."""

import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

TIMEOUT_S = 150.0


def eventually(condition: Callable[[], bool]) -> bool:
    """Return whether `condition` became true within `TIMEOUT_S`."""
    give_up = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True


def today() -> date:
    """Return the day in UTC; in its last minute wait for the next, so that a test has one day."""
    while (soon := datetime.now(UTC) + timedelta(minutes=1)).date() != datetime.now(UTC).date():
        time.sleep(60 - soon.timestamp() % 60)
    return soon.date()
