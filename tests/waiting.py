"""Waiting for what other processes do, within a bound that only a failure reaches."""

import time
from collections.abc import Callable

TIMEOUT_S = 150.0


def eventually(condition: Callable[[], bool]) -> bool:
    """Return whether `condition` became true within `TIMEOUT_S`."""
    give_up = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True
