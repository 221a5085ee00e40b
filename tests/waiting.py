"""Waiting for what other processes do, within a bound that only a failure reaches."""

import time
from collections.abc import Callable

PATIENCE_S = 30.0


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether `condition` became true within half a minute."""
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True
