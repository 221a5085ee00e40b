"""Refinements are found by their texts, whatever became of their records."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from app.contract.requests import RefinementRequest
from app.store import Store, WorkerStore
from app.store.packing import pack_record, unpack_record
from app.store.redis import keys
from app.store.redis.committer import Committer
from app.store.searching import MOST_BYTES, Sought, signature
from tests.store.store_harness import (
    TENANT,
    HeldClaim,
    expire_retention,
    new,
    pack_now,
)
from tests.store.test_packing import succeeded


async def created(store: Store, task: str, **metadata: str) -> str:
    request = RefinementRequest(task=task, draft="Straße nach Zürich", metadata=metadata)
    return (await store.create(replace(new(), request=request), None)).id


async def found(store: Store, query: str, tenant: str = TENANT) -> list[str]:
    return [it.id for it in (await store.page(tenant, query=query)).data]


async def test_a_text_is_found_while_it_waits_and_after_it_has_ended(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await succeeded(store, worker, "A wholly rewritten answer.")
    other = await created(store, "Explain refunds in plain German.", title="Müllers Brief")
    for query, ids in (
        ("refund GERMAN", [other]),
        ("strasse", [other]),
        ("zürich mü", [other]),
        ("title=müllers", [other]),
        (other[4:20].lower(), [other]),
        ("refund rewritten", []),
        ("plain", [other, held.id]),
        ("it plainly", [held.id]),
        ("  ", [other, held.id]),
    ):
        assert await found(store, query) == ids, query
        assert await found(store, query, "another") == []
    await pack_now(redis, worker, held.id)
    assert await redis.hexists(keys.SIGNATURES + TENANT, held.id)
    assert await found(store, "say it PLAIN") == [held.id]
    assert await found(store, "no such words") == []


async def test_a_draft_that_is_an_object_is_found_by_its_members(store: Store) -> None:
    draft = {"sku": 4711, "texts": [{"blurb": "Sturdy ladder"}]}
    request = RefinementRequest.model_validate({"draft": draft})
    made = await store.create(replace(new(), request=request), None)
    assert await found(store, "sturdy") == await found(store, "blurb=stu") == [made.id]
    assert await found(store, "wobbly") == []


async def test_what_lacks_a_part_of_what_is_sought_is_not_read(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await succeeded(store, worker)
    await pack_now(redis, worker, held.id)
    await redis.delete(keys.JOURNAL + held.id)  # a text that is read would be missed
    await redis.hset(keys.SIGNATURES + TENANT, held.id, signature(["elsewhere"]))
    assert await found(store, "plainly") == []


async def back_again(store: Store, committer: Committer, held: HeldClaim) -> None:
    assert await unpack_record(committer, held.id)


async def erased(store: Store, _: Committer, held: HeldClaim) -> None:
    await store.erase(TENANT, held.id)


@pytest.mark.parametrize("happens", [back_again, erased])
async def test_no_signature_outlives_the_record_that_it_is_of(
    store: Store,
    worker: WorkerStore,
    redis: Redis,
    committer: Committer,
    happens: Callable[[Store, Committer, HeldClaim], Awaitable[None]],
) -> None:
    held = await succeeded(store, worker)
    await pack_now(redis, worker, held.id)
    assert await redis.hlen(keys.SIGNATURES + TENANT) == 1
    await happens(store, committer, held)
    assert await redis.exists(keys.SIGNATURES + TENANT) == 0


async def test_no_signature_outlives_the_retention(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await succeeded(store, worker)
    await pack_now(redis, worker, held.id)
    await expire_retention(redis, held.id)
    await worker.check_due(10, include_queued=False)
    assert await redis.exists(keys.SIGNATURES + TENANT) == 0


async def test_without_the_setting_texts_are_found_by_reading_them(
    store: Store, worker: WorkerStore, redis: Redis, committer: Committer
) -> None:
    held = await succeeded(store, worker)
    assert await pack_record(committer, held.id)
    assert await redis.exists(keys.SIGNATURES + TENANT) == 0
    assert await found(store, "say plainly") == [held.id]


async def test_pages_of_what_is_sought_follow_each_other(store: Store) -> None:
    ids = [await created(store, f"{'refund' if n % 2 else 'order'} {n}") for n in range(9)]
    read, cursor = [], None
    while True:
        page = await store.page(TENANT, query="refund", limit=2, cursor=cursor)
        read += [it.id for it in page.data]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert read == ids[1::2][::-1]


@given(st.text(max_size=300), st.integers(0, 300), st.integers(1, 30))
def test_a_signature_has_every_part_of_its_text(text: str, start: int, length: int) -> None:
    sought = Sought.of(text[start : start + length])
    if sought is None or not sought.are_in([text]):
        return
    bits = signature([text])
    for place in (it % (len(bits) * 8) for it in sought.hashes):
        assert bits[place // 8] >> (place % 8) & 1


def test_a_signature_has_a_bound() -> None:
    long = "".join(chr(0x4E00 + n % 20_000) for n in range(200_000))
    assert len(signature([long])) == MOST_BYTES
