"""Changes by Redis pub/sub: one connection for all watchers of a process.

A message has the entries that were appended, or says that the journal must be read. Messages are
lost while there is no connection, so every subscription says that too.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Self, TypeVar

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from app.store.redis import keys
from app.store.redis.codec import published_events
from app.store.redis.connection import is_replaced, layout_in
from app.store.state import StoredEvent

RECONNECT_S = 0.5  # pause between two attempts to connect
SUBSCRIBED_S = 1.0  # maximum wait for a subscription; without it, the journal is read once more
LOOK_S = 0.5  # between two looks whether another primary has taken the place of this one
PING_S = 5.0  # between two questions whether the connection still works
MOST_UNANSWERED = 3  # pings; several, since a busy process may not yet have read an answer
MOST_BUFFERED = 64_000  # bytes of events that are kept for a watcher that does not take them

Events = tuple[StoredEvent, ...]

SUBSCRIBED = {"subscribe", "ssubscribe"}
UNASKED = "the slot of the channels has moved"
"""Why a cluster ends sharded subscriptions; no error says so, and nothing would come any more."""

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
                    if message["type"] in SUBSCRIBED:  # again after each reconnection
                        yield None
                    elif message["type"] in {"message", "smessage"}:
                        yield message["channel"].decode(), message["data"]
                    elif message["type"] == "sunsubscribe":
                        raise RedisConnectionError(UNASKED)
        except (RedisError, OSError) as error:
            _log.warning("reconnecting to channel %s: %s", channels[0], error)
        await asyncio.sleep(RECONNECT_S)


class ChangeSignal:
    """A signal that something has changed since the last `wait`, for one waiter.

    A timer and a future: an asyncio.timeout around an Event took more than all else in a wake-up.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Wake the waiter, or make its next `wait` return at once."""
        self._is_set = True
        self.end_wait()

    def end_wait(self) -> None:
        """Let the waiter go on now, without a change."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def receive(self, events: Events) -> None:
        """Take what was published: without events, the journal must be read."""
        self.set()

    async def wait(self, timeout_s: float) -> bool:
        """Return True as soon as something has changed, False after `timeout_s`."""
        if not self._is_set:
            loop = asyncio.get_running_loop()
            self._waiting = loop.create_future()
            timer = loop.call_later(timeout_s, self.end_wait)
            try:
                await self._waiting
            finally:
                timer.cancel()
        was_set, self._is_set = self._is_set, False
        return was_set


class EventBuffer(ChangeSignal):
    """The published events that a watcher has not taken yet, and the signal that there are any."""

    def __init__(self) -> None:
        super().__init__()
        self._events: list[StoredEvent] = []
        self._bytes = 0
        self._is_complete = False

    def receive(self, events: Events) -> None:
        """Keep events until they are taken; if there are too many, none: see `miss`."""
        if events and self._is_complete:
            self._events += events
            for event in events:
                self._bytes += len(event.json)
        if not events or self._bytes > MOST_BUFFERED:
            self.miss()
        self.set()

    def miss(self) -> None:
        """Let the next `take` ask for the journal to be read."""
        self._events, self._bytes, self._is_complete = [], 0, False

    def take(self, after: int) -> Events | None:
        """Return the events after number `after`, or None if the journal must be read for them.

        That is so the first time, and whenever one may be missing. What is published from then on
        is kept; call `miss` if reading failed or did not reach the end.
        """
        is_complete, kept = self._is_complete, self._events
        self._events, self._bytes, self._is_complete = [], 0, True
        new = [entry for entry in kept if entry.number > after]
        for number, event in enumerate(new, start=after + 1):
            is_complete = is_complete and event.number == number
        return tuple(new) if is_complete else None


S = TypeVar("S", bound=ChangeSignal)


class Wakeups:
    """The watchers of each refinement. A watcher needs no Redis connection of its own.

    Each watched refinement is subscribed to once. `receive_text` takes the messages about texts
    that are being written.
    """

    def __init__(
        self,
        listener: Redis,
        receive_text: Callable[[bytes], None] = lambda _: None,
        ping_s: float = PING_S,
    ) -> None:
        self._ping_s = ping_s
        self._pool = listener.connection_pool
        self._name = layout_in(listener).name
        self._first, self._texts = self._name(keys.ENTRIES), self._name(keys.TEXTS)
        self._receive_text = receive_text
        self._watchers: dict[str, set[ChangeSignal]] = {}  # channel -> watchers
        self._subscribed: set[str] = set()
        self._to_send: dict[str, bool] = {}  # True to subscribe, False to unsubscribe
        self._has_to_send = ChangeSignal()
        self._is_away = True
        self._unanswered = 0
        self._listening: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start listening; Redis need not be reachable yet."""
        self._is_away = False
        self._listening = asyncio.create_task(self._listen())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening."""
        assert self._listening is not None
        self._listening.cancel()
        await asyncio.wait([self._listening])

    def watch(self, refinement_id: str) -> AbstractAsyncContextManager[ChangeSignal]:
        """Yield a signal that is set when the refinement changes, until the context is closed.

        A change after the context was entered sets it, unless Redis is away: then it is set when
        Redis is back.
        """
        return self._watched(refinement_id, ChangeSignal())

    def follow(self, refinement_id: str) -> AbstractAsyncContextManager[EventBuffer]:
        """Yield a buffer of the events published from now on, until the context is closed."""
        return self._watched(refinement_id, EventBuffer())

    @asynccontextmanager
    async def _watched(self, refinement_id: str, signal: S) -> AsyncIterator[S]:
        channel = self._name(keys.ENTRIES_OF + refinement_id)
        if channel not in self._watchers:
            self._ask(channel, subscribe=True)
        watchers = self._watchers.setdefault(channel, set())
        watchers.add(signal)
        try:
            if channel not in self._subscribed and not self._is_away:
                await signal.wait(SUBSCRIBED_S)
            yield signal
        finally:
            watchers.discard(signal)
            if not watchers:
                del self._watchers[channel]
                self._ask(channel, subscribe=False)

    def _ask(self, channel: str, *, subscribe: bool) -> None:
        """Send a command in the next turn of the loop, with others, unless it undoes one unsent."""
        if self._to_send.pop(channel, subscribe) is subscribe:
            self._to_send[channel] = subscribe
            self._has_to_send.set()

    async def _listen(self) -> None:
        while True:
            try:
                async with asyncio.timeout(MOST_UNANSWERED * self._ping_s):
                    connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
                try:
                    await self._receive(connection)
                finally:
                    self._is_away = True
                    self._subscribed.clear()
                    await connection.disconnect(nowait=True)
                    await self._pool.release(connection)
            except (RedisError, OSError) as error:
                _log.warning("reconnecting to channel %s: %s", keys.ENTRIES, error)
                self._is_away = True
            await asyncio.sleep(RECONNECT_S)

    async def _receive(self, connection: AbstractConnection) -> None:
        self._to_send = dict.fromkeys(self._watchers, True)
        sending = asyncio.create_task(self._send(connection))
        try:
            while True:
                reply = await connection.read_response()
                self._unanswered = 0
                kind, name, *rest = reply
                if kind != b"pong":
                    self._receive_reply(kind, name.decode(), *rest)
        finally:
            sending.cancel()

    async def _send(self, connection: AbstractConnection) -> None:
        """Subscribe, unsubscribe, and ask for signs of life; disconnect if there is none."""
        try:
            await self._send_all(connection)
        except (RedisError, OSError) as error:
            _log.warning("channel %s: %s", keys.ENTRIES, error)
            await connection.disconnect(nowait=True)

    async def _send_all(self, connection: AbstractConnection) -> None:
        # One connection for all channels: a text is seen before the end of its step.
        await connection.send_command("SUBSCRIBE", keys.ENTRIES, keys.TEXTS)
        loop, self._unanswered = asyncio.get_running_loop(), 0
        ping_at = loop.time() + self._ping_s
        while True:
            asked, self._to_send = self._to_send, {}
            if new := [channel for channel, subscribe in asked.items() if subscribe]:
                await connection.send_command("SUBSCRIBE", *new)
            if old := [channel for channel, subscribe in asked.items() if not subscribe]:
                await connection.send_command("UNSUBSCRIBE", *old)
            if await self._has_to_send.wait(min(ping_at - loop.time(), LOOK_S)):
                continue
            if is_replaced(connection):
                raise RedisConnectionError("another primary has taken its place")
            if loop.time() >= ping_at:
                if self._unanswered == MOST_UNANSWERED:
                    raise RedisConnectionError("no answer to PING")
                self._unanswered += 1
                ping_at = loop.time() + self._ping_s
                await connection.send_command("PING")

    def _receive_reply(self, kind: bytes, channel: str, content: bytes | int) -> None:
        if not isinstance(content, bytes):
            self._note_subscription(kind, channel)
        elif channel == self._texts:
            self._receive_text(content)
        else:
            self._pass_on(channel, published_events(content))

    def _note_subscription(self, kind: bytes, channel: str) -> None:
        is_subscribed = kind.decode() in SUBSCRIBED
        if channel == self._first:
            if not is_subscribed:
                raise RedisConnectionError(UNASKED)
            self._is_away = False
        elif is_subscribed:
            self._subscribed.add(channel)
            self._pass_on(channel, ())
        else:
            self._subscribed.discard(channel)

    def _pass_on(self, channel: str, events: Events) -> None:
        for signal in self._watchers.get(channel, ()):
            signal.receive(events)
