"""Wake-ups by Redis pub/sub: one connection for all watchers of a process."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Self

from redis.asyncio import Redis
from redis.exceptions import RedisError

from app.store import keys

RECONNECT_S = 0.5  # pause between two attempts to connect

_log = logging.getLogger(__name__)


async def messages(client: Redis, channel: str) -> AsyncIterator[str | None]:
    """Yield every message, and None whenever messages may have been missed.

    The first None follows the subscription. Reconnects without a limit.
    """
    while True:
        try:
            async with client.pubsub() as pubsub:
                await pubsub.subscribe(channel)
                async for message in pubsub.listen():
                    if message["type"] == "subscribe":  # again after each reconnection
                        yield None
                    elif message["type"] == "message":
                        yield message["data"].decode()
        except (RedisError, OSError) as error:
            _log.warning("reconnecting to channel %s: %s", channel, error)
        await asyncio.sleep(RECONNECT_S)


class ChangeSignal:
    """A signal that something has changed since the last `wait`."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """Wake the waiter, or make its next `wait` return at once."""
        self._event.set()

    async def wait(self, timeout_s: float) -> bool:
        """Return True as soon as something has changed, False after `timeout_s`.

        A wake-up can be missed while Redis is unreachable: also read without one now and then.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True


class Wakeups:
    """The watchers of each refinement. A watcher needs no Redis connection of its own."""

    def __init__(self, listener: Redis) -> None:
        self._listener = listener
        self._watchers: dict[str, set[ChangeSignal]] = {}
        self._listening: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start listening; Redis need not be reachable yet."""
        self._listening = asyncio.create_task(self._listen())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening."""
        assert self._listening is not None
        self._listening.cancel()
        await asyncio.wait([self._listening])

    @asynccontextmanager
    async def watch(self, refinement_id: str) -> AsyncIterator[ChangeSignal]:
        """Yield a signal that is set when the refinement changes, until the context is closed."""
        changed = ChangeSignal()
        self._watchers.setdefault(refinement_id, set()).add(changed)
        try:
            yield changed
        finally:
            watchers = self._watchers[refinement_id]
            watchers.discard(changed)
            if not watchers:
                del self._watchers[refinement_id]

    async def _listen(self) -> None:
        async for refinement_id in messages(self._listener, keys.CHANGES):
            if refinement_id is None:  # every watcher may have missed a message
                for watchers in self._watchers.values():
                    _wake(watchers)
            else:
                _wake(self._watchers.get(refinement_id, ()))


def _wake(watchers: Iterable[ChangeSignal]) -> None:
    for changed in watchers:
        changed.set()
