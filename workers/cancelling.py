"""Ending tasks that must not outlive what they serve."""

import asyncio
from collections.abc import Collection
from typing import Any

AGAIN_S = 0.1


async def end(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks that need not clean up, and return when they are done.

    Once is not enough before Python 3.12: a cancellation that comes when `asyncio.wait_for` has
    just got its result is swallowed, and redis-py sends every command under `wait_for`.
    """
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=AGAIN_S)
