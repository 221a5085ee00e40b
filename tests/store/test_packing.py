"""The record of an ended refinement is packed, reads as before, and is restored by a retry."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from app.contract.events import EventType
from app.contract.status import Status
from app.store import Fenced, Store, WorkerStore
from app.store.packing import (
    FOR_ZLIB,
    ON_THE_LOOP,
    EndedRecord,
    pack_record,
    unpack_record,
)
from app.store.prompts import KeptPrompt, PromptKeeper
from app.store.redis import keys
from app.store.redis.committer import Committer
from app.store.redis.scripts import PACK
from tests.store.store_harness import (
    BROKEN,
    COMPLETED,
    FAILED,
    JUDGED,
    SUCCEEDED,
    TENANT,
    HeldClaim,
    ListQueue,
    claim,
    everything,
    expire_retention,
    iteration,
    kinds,
    new,
    pack_now,
    plain,
    recorded,
    started,
    step,
)
from tests.store.test_ratings import GOOD

ASKED = {"draft": "Write it. " * 9, "critique": "Judge it. " * 900}


def kept_prompts() -> dict[str, bytes]:
    keeper = PromptKeeper()
    found: dict[str, bytes] = {}
    for name, text in ASKED.items():
        found |= keeper.fields(name, KeptPrompt("You are an editor.", text))
    return found


async def judged(store: Store, worker: WorkerStore, text: str = "reply") -> HeldClaim:
    held = await started(store, worker)
    said = step(text=text)
    await held.journal.append([said, iteration(held)], JUDGED, prompts=kept_prompts())
    return held


async def succeeded(store: Store, worker: WorkerStore, text: str = "reply") -> HeldClaim:
    held = await judged(store, worker, text)
    await held.journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED)
    return held


async def failed(store: Store, worker: WorkerStore) -> HeldClaim:
    held = await judged(store, worker)
    await held.journal.append([FAILED], BROKEN, to=Status.FAILED)
    return held


async def read(store: Store, refinement_id: str) -> list[Any]:
    """Return all that can be read of a refinement, its events from every number on."""
    last = await store.last_event(TENANT, refinement_id)
    return [
        await store.snapshot(TENANT, refinement_id),
        await store.request(TENANT, refinement_id),
        await store.prompts(TENANT, refinement_id, [*ASKED, "other"], {"draft": "reply"}),
        [
            await store.events(TENANT, refinement_id, after, limit)
            for after, limit in ((0, 1), (0, 1_000), (1, 2), (3, 2), (last - 1, 9), (last, 9))
        ],
    ]


@pytest.mark.parametrize("size", [0, 1, FOR_ZLIB])
def test_a_record_of_any_size_survives_packing(size: int) -> None:
    data = b"\x00".join(b"%d" % number for number in range(size // 8))
    entry = {b"type": b"step.completed", b"data": data, b"": b""}
    prompts = {name.encode(): content for name, content in kept_prompts().items()}
    record = EndedRecord([(b"1-0", entry), (b"2-0", {})], {b"secrets": bytes(9)}, prompts)
    packed = record.packed()
    assert EndedRecord.unpacked(packed) == record
    assert len(packed) < 2_000 + len(data) / 2


async def keys_of(redis: Redis, refinement_id: str) -> set[str]:
    found = cast("list[bytes]", await redis.keys(f"*{refinement_id}"))
    return {plain(it).decode() for it in found}


@pytest.mark.parametrize("size", [5, 2 * ON_THE_LOOP])
async def test_a_packed_record_reads_as_before_and_takes_less(
    store: Store, worker: WorkerStore, redis: Redis, size: int
) -> None:
    held = await succeeded(store, worker, "reply" * (size // 5))
    before, bytes_before = await read(store, held.id), await redis.hget(keys.STORED, TENANT)
    await pack_now(redis, worker, held.id)
    assert await read(store, held.id) == before
    assert await keys_of(redis, held.id) == {keys.SUMMARY + held.id, keys.JOURNAL + held.id}
    assert await redis.xlen(keys.JOURNAL + held.id) == 1
    bytes_after = await redis.hget(keys.STORED, TENANT)
    assert bytes_before
    assert bytes_after
    assert int(bytes_after) < int(bytes_before)


async def test_ratings_before_and_after_it_was_packed_read_as_without_it(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    for packs in (0, 1):
        held = await succeeded(store, worker)
        before = await store.events(TENANT, held.id)
        for place in range(2):
            if packs == place:
                await pack_now(redis, worker, held.id)
            await store.rate(TENANT, held.id, GOOD)
        assert (await kinds(store, held.id))[-3:] == [EventType.COMPLETED] + [EventType.RATED] * 2
        assert (await store.events(TENANT, held.id))[: len(before)] == before
        assert (await store.events(TENANT, held.id, 4, 1))[0] == before[-1]


async def test_a_retry_restores_the_record_as_it_was(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await failed(store, worker)
    before = await everything(redis)
    await pack_now(redis, worker, held.id)
    assert await everything(redis) != before
    await store.retry(TENANT, held.id)
    after = await everything(redis)
    journal = (keys.JOURNAL + held.id).encode()
    assert after[journal][:-1] == before[journal]
    for key in (keys.REQUEST + held.id, keys.PROMPTS + held.id):
        assert after[key.encode()] == before[key.encode()]
    assert keys.TO_PACK.encode() not in after
    again = await claim(worker, held.id, 2)
    assert len(await recorded(worker, held.id)) == 6
    await again.journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED)
    ended = await read(store, held.id)
    await pack_now(redis, worker, held.id)
    assert await read(store, held.id) == ended


async def test_a_rating_after_it_was_packed_survives_a_retry(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await failed(store, worker)
    await pack_now(redis, worker, held.id)
    await store.rate(TENANT, held.id, GOOD)
    rated = await store.events(TENANT, held.id)
    await store.retry(TENANT, held.id)
    events = await store.events(TENANT, held.id)
    assert [it.json for it in events[:-1]] == [it.json for it in rated]
    assert events[-1].type == EventType.RETRIED.encode()


async def test_only_what_ended_long_enough_ago_is_packed_and_no_text_that_is_not_to_be_stored(
    store: Store, worker: WorkerStore, redis: Redis, committer: Committer
) -> None:
    running, held = await judged(store, worker), await succeeded(store, worker)
    unstored = new().request.model_copy(update={"store": False})
    made = await store.create(replace(new(), request=unstored), None)
    brief = await claim(worker, made.id)
    await brief.journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED)
    before = await everything(redis)
    assert not await worker.count_and_pack()
    assert not await pack_record(committer, running.id)
    assert await everything(redis) == before
    assert await redis.zrange(keys.TO_PACK, 0, -1) == [held.id.encode()]


async def test_what_changes_while_it_is_packed_stays_as_it_is(
    store: Store, worker: WorkerStore, redis: Redis, committer: Committer
) -> None:
    held = await succeeded(store, worker)
    await store.rate(TENANT, held.id, GOOD)
    before = await everything(redis)
    stale = (5, "refinement.completed", 1, b"packed before the rating", b"")
    assert await committer.submit(PACK, held.id, *stale) == 0
    assert await everything(redis) == before
    assert await pack_record(committer, held.id)
    packed = await everything(redis)
    assert not await pack_record(committer, held.id)
    assert await everything(redis) == packed


async def test_it_is_unpacked_once(
    store: Store, worker: WorkerStore, redis: Redis, committer: Committer
) -> None:
    held = await failed(store, worker)
    assert not await unpack_record(committer, held.id)
    await pack_now(redis, worker, held.id)
    assert await unpack_record(committer, held.id)
    assert not await unpack_record(committer, held.id)


async def erased(store: Store, worker: WorkerStore, redis: Redis, refinement_id: str) -> None:
    await store.erase(TENANT, refinement_id)


async def expired(store: Store, worker: WorkerStore, redis: Redis, refinement_id: str) -> None:
    await expire_retention(redis, refinement_id)
    await worker.recover(include_queued=False)


@pytest.mark.parametrize("end", [erased, expired])
@pytest.mark.parametrize("is_packed", [True, False])
async def test_nothing_is_left_of_what_is_deleted(
    store: Store, worker: WorkerStore, redis: Redis, end: Callable[..., Any], is_packed: bool
) -> None:
    held = await succeeded(store, worker)
    if is_packed:
        await pack_now(redis, worker, held.id)
    await end(store, worker, redis, held.id)
    left = await everything(redis)
    del left[ListQueue.key.encode()]
    assert [key for key, value in left.items() if held.id in f"{key!r} {value!r}"] == []
    with pytest.raises(Fenced):
        await held.journal.append([step()])


async def test_a_watcher_of_a_packed_record_reads_all_of_it_at_once(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await succeeded(store, worker, "reply")
    whole = await store.events(TENANT, held.id)
    await pack_now(redis, worker, held.id)
    assert len(whole) > 2
    assert await store.events(TENANT, held.id, 0, 2) == whole[:2]
    assert await store.events(TENANT, held.id, 0, 1, unpacks_once=True) == whole
