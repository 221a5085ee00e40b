"""Whatever happens to a few refinements, in whatever order: the record stays whole.

Workers come, go silent, hand back and return too late; clients cancel, finish, change and erase;
answers are lost; jobs are lost; time passes. What must hold is looked at after every step.
"""

import asyncio
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from redis.asyncio import Redis

from app.contract.errors import RefinementNotFound
from app.contract.events import EventType
from app.contract.snapshot import Snapshot
from app.contract.status import MOVES, Status
from app.settings import Settings
from app.store import Store, open_store, open_worker_store
from app.store.redis import keys
from tests.store.state_machine import ACTIONS, StateMachine
from tests.store.store_harness import TENANT, ListQueue

ASKING = {EventType.PAUSED, EventType.STEP_WAITING}
"""They name a step before it is done; how often one waits is up to its worker."""


@dataclass
class Auditor:
    """Looks at what clients see and at what is watched over, and remembers what it saw."""

    store: Store
    redis: Redis
    seen: dict[str, Snapshot] = field(default_factory=dict)

    async def look_at_all(self, ids: list[str]) -> None:
        """Raise AssertionError unless everything that must hold does."""
        listed = await asyncio.gather(*map(self.listed, Status))
        for refinement_id in ids:
            statuses = {
                it for it, found in zip(Status, listed, strict=True) if refinement_id in found
            }
            try:
                await self.look_at(refinement_id, statuses)
            except RefinementNotFound:
                self.seen.pop(refinement_id, None)
                assert statuses == set()

    async def listed(self, status: Status) -> set[str]:
        page = await self.store.page(TENANT, status=status)
        assert not page.has_more
        return {it.id for it in page.data}

    async def look_at(self, refinement_id: str, statuses: set[Status]) -> None:
        snapshot = await self.store.snapshot(TENANT, refinement_id)
        events = await self.store.decoded_events(TENANT, refinement_id)
        before = self.seen.get(refinement_id)
        assert [event.event for event in events] == list(range(1, snapshot.last_event + 1))
        work = [event for event in events if event.type is not EventType.RATED]
        for ended, after in pairwise(work):
            assert ended.type.is_terminal == (after.type is EventType.RETRIED)
        for event in work:
            if isinstance(event.data, Snapshot):
                assert event.data.last_event == event.event
        assert work[-1].type.is_terminal == snapshot.status.is_terminal
        types = [it.type for it in events]
        assert types.count(EventType.STOPPING) <= 1 + types.count(EventType.RETRIED)
        assert (snapshot.review is not None) == (snapshot.status is Status.PAUSED)
        told = [it.data for it in events if it.type not in ASKING]
        done = [key for data in told if (key := getattr(data, "key", None))]
        assert len(done) == len(set(done))
        if before and before.last_event == snapshot.last_event:
            assert before == snapshot
        elif before:
            assert before.status is snapshot.status or reaches(before.status, snapshot.status)
        self.seen[refinement_id] = snapshot
        assert statuses == {snapshot.status}
        await self.look_at_indexes(refinement_id, snapshot)

    async def look_at_indexes(self, refinement_id: str, snapshot: Snapshot) -> None:
        page = await self.store.page(TENANT, metadata=snapshot.metadata)
        assert [it.id for it in page.data] == [refinement_id]
        watched = [
            await self.redis.zscore(name, refinement_id) is not None
            for name in (keys.DUE, keys.WAITING)
        ]
        holder = await self.redis.hget(keys.SUMMARY + refinement_id, "holder")
        if isinstance(holder, bytes):
            held = await self.redis.sismember(keys.HELD + holder.decode(), refinement_id)
            is_alive = await self.redis.zscore(keys.WORKERS, holder.decode()) is not None
            watched.append(bool(held) and is_alive)
        assert watched.count(True) == 1  # nobody is forgotten, nobody looked at twice


def reaches(start: Status, end: Status) -> bool:
    """Whether the table leads from one status to the other."""
    reached: set[Status] = set()
    while more := {end for one in {start, *reached} for end in MOVES[one]} - reached:
        reached |= more
    return end in reached


@pytest.mark.parametrize(
    "beginning",
    [["submit"], ["submit", "deliver", "ask"], ["submit", "deliver", "judge", "park"]],
)
@examples(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.sampled_from(ACTIONS), st.integers(0, 9)),
        min_size=5,
        max_size=40,
    )
)
async def test_any_history_leaves_the_record_whole(
    settings: Settings,
    queue: ListQueue,
    redis: Redis,
    beginning: list[str],
    history: list[tuple[str, int]],
) -> None:
    await redis.flushdb()
    async with (
        open_store(settings, queue) as store,
        open_worker_store(settings, queue, "worker-1") as worker,
    ):
        machine, auditor = StateMachine(store, worker, redis), Auditor(store, redis)
        for action, n in [*((action, 0) for action in beginning), *history]:
            await machine.act(action, n)
            await auditor.look_at_all(machine.ids)
        for _ in range(2):
            await machine.live_on()
        await auditor.look_at_all(machine.ids)
        assert {it.status.is_terminal for it in auditor.seen.values()} <= {True}
