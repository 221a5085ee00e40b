"""Bytes put together from stored bytes are what the contract's models would write."""

import pytest
from redis.asyncio import Redis

from app.contract.events import Event, EventType
from app.contract.snapshot import Snapshot
from app.contract.status import Status
from app.store import Store, WorkerStore
from app.store.redis import keys
from app.store.redis.codec import snapshot_json
from tests.store.store_harness import (
    COMPLETED,
    JUDGED,
    SUCCEEDED,
    TENANT,
    HeldClaim,
    claim,
    failed_step,
    iteration,
    step,
    stopping,
    submit,
    under_way,
)


async def whole_life(store: Store, worker: WorkerStore) -> HeldClaim:
    held = await claim(worker, await submit(store, ticket="4711", name="ä"))
    await held.journal.append([under_way("a", "b")])
    await held.journal.append([step("a"), failed_step("b"), iteration(held)], JUDGED)
    await held.journal.append([stopping()])
    await held.journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED)
    return held


async def test_every_event_is_written_as_its_model_would_write_it(
    store: Store, worker: WorkerStore
) -> None:
    held = await whole_life(store, worker)
    stored = await store.events(TENANT, held.id)
    decoded = await store.decoded_events(TENANT, held.id)
    assert len(stored) == len(decoded) == 8
    for event, model in zip(stored, decoded, strict=True):
        assert event.json.decode() == model.model_dump_json()
        assert Event.model_validate_json(event.json) == model
        assert (event.number, event.type.decode()) == (model.event, model.type)


@pytest.mark.parametrize("ended", [False, True])
async def test_a_snapshot_is_written_as_its_model_would_write_it(
    store: Store, worker: WorkerStore, redis: Redis, ended: bool
) -> None:
    held = await whole_life(store, worker) if ended else await claim(worker, await submit(store))
    stored = await redis.hgetall(keys.SUMMARY + held.id)
    written = snapshot_json(held.id, {bytes(k): bytes(v) for k, v in stored.items()})  # type: ignore[arg-type]
    assert written.decode() == Snapshot.model_validate_json(written).model_dump_json()


async def test_events_are_read_from_any_number_on(store: Store, worker: WorkerStore) -> None:
    held = await whole_life(store, worker)
    every = await store.events(TENANT, held.id)
    assert await store.events(TENANT, held.id, after=3) == every[3:]
    assert await store.events(TENANT, held.id, after=3, limit=2) == every[3:5]
    for after in (8, 9, 2**63, 2**64, 10**30):
        assert await store.events(TENANT, held.id, after=after) == ()


async def test_the_last_event_of_a_page_is_whole(store: Store, worker: WorkerStore) -> None:
    held = await whole_life(store, worker)
    (last,) = await store.decoded_events(TENANT, held.id, after=7)
    assert last.type is EventType.COMPLETED
    assert last.data == await store.snapshot(TENANT, held.id)


async def test_a_journal_of_many_pages_is_read_whole(store: Store, worker: WorkerStore) -> None:
    held = await claim(worker, await submit(store))
    for first in range(0, 2_500, 500):
        await held.journal.append([step(f"s/{n}") for n in range(first, first + 500)])
    pages = [await store.events(TENANT, held.id, after) for after in (0, 1_000, 2_000)]
    assert [it.number for page in pages for it in page] == list(range(1, 2_503))
