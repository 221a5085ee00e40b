"""Cancellations that are not lost.

Before Python 3.12 `asyncio.wait_for` swallows a cancellation that comes when it has just got its
result, and redis-py sends every command under `wait_for`.
"""

import asyncio
from collections.abc import Collection
from typing import Any

AGAIN_S = 0.1


async def end(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks that need not clean up, as often as it takes, and return when they are done."""
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=AGAIN_S)


def heed_cancellation() -> None:
    """Raise CancelledError if the task that calls it was cancelled, even if that was swallowed."""
    me = asyncio.current_task()
    if me is not None and me.cancelling():
        raise asyncio.CancelledError
