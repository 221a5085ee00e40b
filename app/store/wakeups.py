"""Wake-ups by Redis pub/sub: one connection for all watchers of a process."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Self

from redis.asyncio import Redis
from redis.exceptions import RedisError

from app.store import keys

RECONNECT_S = 0.5  # pause between two attempts to connect

_log = logging.getLogger(__name__)


async def messages(client: Redis, *channels: str) -> AsyncIterator[tuple[str, bytes] | None]:
    """Yield every message with its channel, and None whenever messages may have been missed.

    The first None follows the subscription. Reconnects without a limit.
    """
    while True:
        try:
            async with client.pubsub() as pubsub:
                await pubsub.subscribe(*channels)
                async for message in pubsub.listen():
                    if message["type"] == "subscribe":  # again after each reconnection
                        yield None
                    elif message["type"] == "message":
                        yield message["channel"].decode(), message["data"]
        except (RedisError, OSError) as error:
            _log.warning("reconnecting to channel %s: %s", channels[0], error)
        await asyncio.sleep(RECONNECT_S)


class ChangeSignal:
    """A signal that something has changed since the last `wait`."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._has_changed = False

    def set(self) -> None:
        """Wake the waiter, or make its next `wait` return at once."""
        self._has_changed = True
        self._event.set()

    def nudge(self) -> None:
        """Wake the waiter for something else than a change."""
        self._event.set()

    def take_change(self) -> bool:
        """Return whether there was a change since the last time."""
        has_changed, self._has_changed = self._has_changed, False
        return has_changed

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
    """The watchers of each refinement. A watcher needs no Redis connection of its own.

    `receive_text` takes the messages about texts that are being written.
    """

    def __init__(
        self, listener: Redis, receive_text: Callable[[bytes], None] = lambda _: None
    ) -> None:
        self._listener = listener
        self._receive_text = receive_text
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
        # One connection for both channels: a text is seen before the end of its step.
        async for message in messages(self._listener, keys.CHANGES, keys.TEXTS):
            if message is None:  # every watcher may have missed a message
                for watchers in self._watchers.values():
                    _wake(watchers)
            elif message[0] == keys.TEXTS:
                self._receive_text(message[1])
            else:
                _wake(self._watchers.get(message[1].decode(), ()))


def _wake(watchers: Iterable[ChangeSignal]) -> None:
    for changed in watchers:
        changed.set()
