"""Waits for new events of a refinement, until one arrives or this process shuts down."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Container, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass

from pydantic_core import from_json

from app.contract.errors import (
    HoneError,
    MalformedHeader,
    NotStored,
    RefinementNotFound,
    Unavailable,
)
from app.contract.events import EventType, StepDelta
from app.contract.snapshot import Snapshot
from app.store import Store
from app.store.live_texts import LiveTexts, TextCursor
from app.store.state import StoredEvent
from app.store.wakeups import ChangeSignal, EventBuffer, Wakeups


class Shutdown:
    """The shutdown of this process: `close` ends every wait for new events."""

    def __init__(self) -> None:
        self._signals: set[ChangeSignal] = set()
        self.is_open = True
        """Whether clients may still wait."""

    @property
    def open_waits(self) -> int:
        """How many clients wait now."""
        return len(self._signals)

    def close(self) -> None:
        """End every wait. Call it on the event loop; calling it again has no effect."""
        self.is_open = False
        for changed in self._signals:
            changed.end_wait()

    @contextmanager
    def ends_waits(self, changed: ChangeSignal) -> Iterator[None]:
        """Let `close` end every wait for a signal, until the context ends."""
        self._signals.add(changed)
        try:
            yield
        finally:
            self._signals.discard(changed)


LOOK_S = 15.0
"""Seconds without an event after which a stream has a comment and a wait looks by itself."""

ANNOUNCE_S = 5.0
"""Seconds between two announcements of whose texts are watched."""

Events = tuple[StoredEvent, ...]
Batch = Events | tuple[StepDelta, ...]
STEP_ENDS = {EventType.STEP_COMPLETED.encode(), EventType.STEP_FAILED.encode()}
RATED = EventType.RATED.encode()

BATCH = 8
"""Events read at a time for a watcher, which bounds the memory of a slow one; of a packed record,
which is decompressed as a whole, all."""


@dataclass(frozen=True, slots=True)
class EventFeed:
    """The first events for a client, perhaps none, and the later ones as they arrive."""

    first: Batch
    later: AsyncGenerator[Batch, None]


class Watching:
    """Watches refinements on behalf of clients. A watcher holds no connection to Redis."""

    def __init__(
        self,
        store: Store,
        wakeups: Wakeups,
        shutdown: Shutdown,
        look_s: float = LOOK_S,
        *,
        texts: LiveTexts | None = None,
    ) -> None:
        self._texts = texts or LiveTexts()
        self._announcing: asyncio.Task[None] | None = None
        self._store = store
        self._look_s = look_s
        self._wakeups = wakeups
        self._shutdown = shutdown

    async def until(
        self, tenant: str, refinement_id: str, done: Callable[[Snapshot], bool], wait_s: float
    ) -> Snapshot:
        """Return the snapshot as soon as it is `done`, or the current one after `wait_s`."""
        if wait_s <= 0:
            return await self._store.snapshot(tenant, refinement_id)
        deadline = time.monotonic() + wait_s
        async with self._wakeups.watch(refinement_id) as changed:
            with self._shutdown.ends_waits(changed):
                while True:
                    snapshot = await self._store.snapshot(tenant, refinement_id)
                    left_s = deadline - time.monotonic()
                    if done(snapshot) or left_s <= 0 or not self._shutdown.is_open:
                        return snapshot
                    await changed.wait(min(left_s, self._look_s))

    async def wait_for_change(
        self, tenant: str, refinement_id: str, seen: Container[int] | None, wait_s: float
    ) -> Snapshot:
        """Return the snapshot once its last event is not in `seen`, or after `wait_s`.

        `seen` None means the current last event. An ended refinement is returned immediately.
        """
        if seen is None:
            now = await self._store.snapshot(tenant, refinement_id)
            if wait_s <= 0 or now.status.is_terminal:
                return now
            seen = frozenset({now.last_event})
        return await self.until(
            tenant,
            refinement_id,
            lambda snapshot: snapshot.last_event not in seen or snapshot.status.is_terminal,
            wait_s,
        )

    async def follow(
        self, tenant: str, refinement_id: str, after: int, *, deltas: bool = False
    ) -> EventFeed | None:
        """Return all events after number `after`, as they arrive, up to the last, terminal one.

        A terminal event that a retry follows is not the last. An empty batch means that none
        arrived for `LOOK_S` seconds. It also ends when Redis has lost the last events that it
        yielded. With `deltas` there are batches of texts as they are written in between. Returns
        None if `after` is the last, terminal event, or a rating after it: a stream ends with that
        event. Raises MalformedHeader if `after` is greater than the last event.
        """
        batches = self._follow(tenant, refinement_id, after, deltas)
        try:
            return EventFeed(await anext(batches), batches)
        except StopAsyncIteration:
            return None

    async def require_event(self, tenant: str, refinement_id: str, number: int) -> None:
        """Raise MalformedHeader if there is no event of this number yet."""
        _require_event(number, (await self._store.snapshot(tenant, refinement_id)).last_event)

    async def _follow(
        self, tenant: str, refinement_id: str, after: int, deltas: bool
    ) -> AsyncGenerator[Batch, None]:
        async with self._wakeups.follow(refinement_id) as buffer, AsyncExitStack() as stack:
            more = await self._first(buffer, tenant, refinement_id, after)
            if more is None:
                return
            texts = None
            if deltas:
                watched = self._watched_texts(refinement_id, buffer)
                texts = await stack.enter_async_context(watched)
            stack.enter_context(self._shutdown.ends_waits(buffer))
            yield more
            may_be_lost = False
            while not (more and more[-1].is_last):
                after = more[-1].number if more else after
                if texts:
                    _end_texts(texts, more)
                if not self._shutdown.is_open or not await buffer.wait(self._look_s):
                    if may_be_lost and await self._is_lost(tenant, refinement_id, after):
                        return
                    may_be_lost = False
                    yield ()
                if texts and (pieces := texts.take()):
                    yield pieces
                if not self._shutdown.is_open:
                    return
                more = buffer.take(after)
                if more is None:
                    more = await self._more(buffer, tenant, refinement_id, after)
                    may_be_lost = not more
                if more is None:
                    return
                if more:
                    yield more

    async def _first(
        self, buffer: EventBuffer, tenant: str, refinement_id: str, after: int
    ) -> Events | None:
        """Return the first events, or None if a stream would have none."""
        first = await self._read(buffer, tenant, refinement_id, after)
        if first:
            return None if first[0].is_last and first[0].type == RATED else first
        snapshot = await self._store.snapshot(tenant, refinement_id)
        _require_event(after, snapshot.last_event)
        has_ended = snapshot.status.is_terminal and after == snapshot.last_event
        return None if has_ended else first

    async def _read(
        self, buffer: EventBuffer, tenant: str, refinement_id: str, after: int
    ) -> Events:
        """Return events of the journal up to the end, and let the buffer go on after them."""
        buffer.take(after)
        events = await self._store.events(tenant, refinement_id, after, BATCH, unpacks_once=True)
        if len(events) == BATCH:
            buffer.receive(())  # there may be more of them
        return _to_the_end(events)

    @asynccontextmanager
    async def _watched_texts(
        self, refinement_id: str, changed: ChangeSignal
    ) -> AsyncIterator[TextCursor]:
        """Yield a cursor; workers are told that the texts are watched for as long as it is open."""
        async with self._texts.watch(refinement_id, changed) as cursor:
            if self._announcing is None:
                self._announcing = asyncio.create_task(self._announce())
            yield cursor

    async def _announce(self) -> None:
        """Announce what is watched: at once what is new, and all of it now and then."""
        now, all_due = asyncio.get_running_loop().time, 0.0
        try:
            while watched := self._texts.watched:
                behind = self._texts.take_behind()
                if (is_due := now() >= all_due) or behind:
                    with suppress(HoneError):
                        await self._store.announce_watched(watched if is_due else behind, behind)
                all_due = now() + ANNOUNCE_S if is_due else all_due
                await self._texts.has_news.wait(all_due - now())
        finally:
            self._announcing = None

    async def _is_lost(self, tenant: str, refinement_id: str, number: int) -> bool:
        """Return whether an event is gone: an older copy of the data was restored."""
        with suppress(Unavailable, RefinementNotFound):
            return await self._store.last_event(tenant, refinement_id) < number
        return False

    async def _more(
        self, buffer: EventBuffer, tenant: str, refinement_id: str, after: int
    ) -> Events | None:
        """Return new events, none while Redis is unreachable; None once it is erased."""
        try:
            return await self._read(buffer, tenant, refinement_id, after)
        except Unavailable:
            buffer.miss()
            return ()
        except (RefinementNotFound, NotStored):
            return None


def _require_event(number: int, last: int) -> None:
    if number > last:
        raise MalformedHeader(f"event {number} does not exist; the last event is {last}")


def _to_the_end(events: Events) -> Events:
    """Return events without the ratings that people gave after the work had ended."""
    while len(events) > 1 and events[-2].is_last:
        events = events[:-1]
    return events


def _end_texts(texts: TextCursor, events: Events) -> None:
    """Skip the texts of the steps that have ended: their events have them."""
    for event in events:
        if event.type in STEP_ENDS:
            texts.end(from_json(event.json)["data"]["key"])
