"""What a refinement adds to sums is added once, soon after its end and before it goes."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from app.contract.status import Status
from app.store import Addition, Fenced, Journal, Store, WorkerStore
from app.store.redis import keys
from app.store.redis.codec import decode_sums
from app.store.redis.scripts import KEPT_MS, MOST_LISTED, MOST_SUMS
from tests.store.store_harness import (
    BROKEN,
    COMPLETED,
    FAILED,
    JUDGED,
    SUCCEEDED,
    TENANT,
    FlakyCommitter,
    HeldClaim,
    claim,
    copied,
    count_ended,
    expire_lease,
    expire_retention,
    iteration,
    new,
    restore,
    started,
)

TEST = keys.PREFIX + "test:"
SUMS, LIST = TEST + "sums", TEST + "list"
ONE_TWO = Addition(SUMS, {"a": (1, 2.5)})

Going = Callable[[Store, WorkerStore, Redis, HeldClaim], Awaitable[None]]


async def ended(store: Store, worker: WorkerStore, *additions: Addition) -> HeldClaim:
    """Let a refinement succeed that adds this."""
    held = await started(store, worker)
    await held.journal.append([iteration(held)], JUDGED)
    await held.journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED, additions=additions)
    return held


async def added(store: Store, worker: WorkerStore, *additions: Addition) -> HeldClaim:
    """Let a refinement succeed that adds this, and count it."""
    held = await ended(store, worker, *additions)
    await count_ended(worker)
    return held


async def succeed(worker: WorkerStore, held: HeldClaim) -> None:
    await held.journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED, additions=[ONE_TWO])
    await count_ended(worker)


async def sums(redis: Redis, key: str = SUMS) -> dict[str, Any]:
    found = cast("dict[bytes, bytes]", await redis.hgetall(key))
    return {name.decode(): decode_sums(value) for name, value in found.items()}


async def test_numbers_are_added_place_by_place(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    await added(store, worker, ONE_TWO, Addition(TEST + "others", {"b": (7,)}))
    await added(store, worker, Addition(SUMS, {"a": (0.5, -2, 9), "c": (), "d": (1e-20,)}))
    assert await sums(redis) == {"a": [1.5, 0.5, 9], "d": [1e-20]}
    assert await sums(redis, TEST + "others") == {"b": [7]}


async def test_what_was_there_decays(store: Store, worker: WorkerStore, redis: Redis) -> None:
    await added(store, worker, Addition(SUMS, {"a": (100,), "b": (10,)}))
    await added(store, worker, Addition(SUMS, {"a": (1,)}, decay=0.5))
    assert await sums(redis) == {"a": [51], "b": [10]}


async def test_sums_of_another_version_are_replaced_by_a_higher_one_alone(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    of_the_second = {"version": 2, "about": {"model": "m"}, "b": [3]}
    await added(store, worker, Addition(SUMS, {"a": (1,)}, version=1))
    await added(store, worker, Addition(SUMS, {"b": (3,)}, version=2, about='{"model": "m"}'))
    assert await sums(redis) == of_the_second
    await added(store, worker, Addition(SUMS, {"a": (1,)}, version=1))
    assert await sums(redis) == of_the_second


async def test_equal_numbers_added_to_two_sums_keep_apart_what_each_is_of(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    one = Addition(SUMS, {"a": (1,)}, version=1, about='{"model": "m"}')
    await added(store, worker, one, replace(one, key=TEST + "others", about='{"model":\n"n"}'))
    assert await sums(redis) == {"version": 1, "about": {"model": "m"}, "a": [1]}
    assert await sums(redis, TEST + "others") == {"version": 1, "about": {"model": "n"}, "a": [1]}


async def test_sums_expire_and_the_list_of_them_as_well(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    await added(store, worker, Addition(SUMS, {"a": (1,)}, listed_in=LIST))
    for key in (SUMS, LIST):
        assert KEPT_MS - 600_000 < await redis.pttl(key) <= KEPT_MS


async def test_a_full_list_drops_what_was_added_to_longest_ago(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await added(store, worker, Addition(TEST + "first", {"a": (1,)}, listed_in=LIST))
    ended_at = (await store.snapshot(TENANT, held.id)).ended_at
    assert ended_at is not None
    times: dict[Any, float] = {
        TEST + f"{n}": ended_at.timestamp() * 1000 + n for n in range(1, MOST_LISTED - 1)
    }
    await redis.zadd(LIST, {**times, TEST + "expired": 1})
    await added(store, worker, Addition(TEST + "new", {"a": (1,)}, listed_in=LIST))
    assert await redis.exists(TEST + "first") == 1
    assert await redis.zscore(LIST, TEST + "expired") is None
    await added(store, worker, Addition(TEST + "last", {"a": (1,)}, listed_in=LIST))
    assert await redis.exists(TEST + "first") == 0
    assert await redis.zcard(LIST) == MOST_LISTED


async def test_a_hash_takes_no_more_names_than_it_may_have(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    await added(store, worker, Addition(SUMS, {f"a{n}": (1,) for n in range(MOST_SUMS)}))
    await added(store, worker, Addition(SUMS, {"a0": (1,), "b": (1,)}))
    found = await sums(redis)
    assert (len(found), found["a0"], "b" in found) == (MOST_SUMS, [2], False)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -1e100])
def test_a_number_that_would_spoil_the_sums_is_rejected(number: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        Addition(SUMS, {"a": (number,)})


async def test_only_an_ending_adds(store: Store, worker: WorkerStore) -> None:
    held = await started(store, worker)
    with pytest.raises(ValueError, match="ends"):
        await held.journal.append([iteration(held)], additions=[ONE_TWO])


@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_an_ending_that_is_sent_again_adds_once(
    store: Store, worker: WorkerStore, redis: Redis, flaky: FlakyCommitter, lost: str
) -> None:
    held = await started(store, worker)
    journal = Journal(held.claimed, flaky)
    flaky.lose = [lost, lost]
    for _ in range(2):
        with pytest.raises(RedisConnectionError):
            await journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED, additions=[ONE_TWO])
    await journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED, additions=[ONE_TWO])
    await count_ended(worker)
    assert await sums(redis) == {"a": [1, 2.5]}


async def test_a_retried_one_adds_once(store: Store, worker: WorkerStore, redis: Redis) -> None:
    held = await started(store, worker)
    await held.journal.append([FAILED], BROKEN, to=Status.FAILED, additions=[ONE_TWO])
    await store.retry(TENANT, held.id)
    await succeed(worker, await claim(worker, held.id, job=2))
    assert await sums(redis) == {"a": [1, 2.5]}


async def test_what_was_canceled_or_taken_over_adds_nothing(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    canceled, slow = await started(store, worker), await started(store, worker)
    await store.cancel(TENANT, canceled.id)
    await succeed(worker, canceled)
    await expire_lease(redis, slow.id)
    quick = await claim(worker, slow.id, job=2)
    with pytest.raises(Fenced):
        await succeed(worker, slow)
    assert await sums(redis) == {}
    await succeed(worker, quick)
    assert await sums(redis) == {"a": [1, 2.5]}


async def test_what_redis_lost_with_the_ending_is_added_with_it_again(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    await added(store, worker, ONE_TWO)
    held = await started(store, worker)
    copy = await copied(redis)
    await succeed(worker, held)
    await restore(redis, copy)
    assert await sums(redis) == {"a": [1, 2.5]}
    with pytest.raises(Fenced):  # the first ending was written again before this one
        await succeed(worker, held)
    await count_ended(worker)
    assert await sums(redis) == {"a": [2, 5]}


async def test_endings_that_are_counted_together_add_what_they_add_one_after_the_other(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    of_two = Addition(SUMS, {"a": (8,), "b": (1,)}, decay=0.5, version=2, about='"x"')
    for addition in (replace(of_two, version=1), of_two, replace(of_two, sums={"a": (3,)})):
        await ended(store, worker, addition)
    await ended(store, worker, replace(of_two, version=1))
    assert await sums(redis) == {}
    await count_ended(worker)
    assert await sums(redis) == {"version": 2, "about": "x", "a": [7], "b": [1]}


async def test_endings_are_counted_once_the_oldest_has_waited(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held, _ = await ended(store, worker, ONE_TWO), await ended(store, worker, ONE_TWO)
    assert not await worker.count_and_pack(count_after_ms=60_000)
    assert await sums(redis) == {}
    await redis.zadd(keys.TO_COUNT, {held.id: 1})
    assert not await worker.count_and_pack(count_after_ms=60_000)
    assert await sums(redis) == {"a": [2, 5]}


async def _erased(store: Store, _w: WorkerStore, _r: Redis, held: HeldClaim) -> None:
    await store.erase(TENANT, held.id)


async def _expired(_s: Store, worker: WorkerStore, redis: Redis, held: HeldClaim) -> None:
    await expire_retention(redis, held.id)
    await worker.recover(include_queued=False)


async def _packed(_s: Store, worker: WorkerStore, redis: Redis, held: HeldClaim) -> None:
    await redis.zadd(keys.TO_PACK, {held.id: 1})
    assert not await worker.count_and_pack(count_after_ms=60_000)


async def _packed_and_erased(
    store: Store, worker: WorkerStore, redis: Redis, held: HeldClaim
) -> None:
    await _packed(store, worker, redis, held)
    await store.erase(TENANT, held.id)


async def _erased_without_memory(
    store: Store, _w: WorkerStore, redis: Redis, held: HeldClaim
) -> None:
    await redis.config_set("maxmemory", 1)
    await store.erase(TENANT, held.id)
    await redis.config_set("maxmemory", 0)


@pytest.mark.parametrize(
    "go", [_erased, _expired, _packed, _packed_and_erased, _erased_without_memory]
)
async def test_it_adds_once_although_it_goes_before_it_is_counted(
    store: Store, worker: WorkerStore, redis: Redis, go: Going
) -> None:
    held = await ended(store, worker, ONE_TWO)
    await go(store, worker, redis, held)
    await count_ended(worker)
    assert await sums(redis) == {"a": [1, 2.5]}
    assert await redis.exists(keys.TO_COUNT) == 0


async def test_what_is_not_to_be_stored_keeps_no_additions(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    request = new().request.model_copy(update={"store": False})
    created = await store.create(replace(new(), request=request), None)
    held = await claim(worker, created.id)
    await held.journal.append(
        [iteration(held), COMPLETED], JUDGED, to=Status.SUCCEEDED, additions=[ONE_TWO]
    )
    assert await redis.hexists(keys.SUMMARY + held.id, "added") is False
    await store.delivered(TENANT, held.id)
    await count_ended(worker)
    assert await sums(redis) == {}
    (day,) = cast("list[bytes]", await redis.keys(keys.STATISTICS + ":usage:*"))
    assert await sums(redis, day.decode()) == {"passed iterative - ": [1, 0, 0, 0, 0, 0, 0]}
