"""A submission is one refinement and one job, or neither; the same key and body is the same one."""

import asyncio
import time
import zlib
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import Any, cast

import pytest
from redis import Redis as BlockingRedis
from redis.asyncio import Redis
from rq import Queue
from rq.serializers import JSONSerializer
from ulid import ULID

from app.contract.errors import IdempotencyMismatch, Overloaded, RefinementNotFound, Unavailable
from app.contract.events import EventType
from app.contract.status import Status
from app.queue import JOB, RefinementQueue
from app.settings import Settings
from app.store import Store, WorkerStore, open_store
from app.store.creation import Clock, Creation
from app.store.redis import keys
from app.store.redis.committer import Committer
from app.store.redis.keys import Word
from app.store.redis.scripts import CREATE, LuaScript
from tests.store.store_harness import DRAFT, TENANT, ListQueue, kinds, new, submit
from tests.waiting import TIMEOUT_S

pytestmark = pytest.mark.oldest_too


async def jobs(redis: Redis) -> list[str]:
    return [cast("bytes", job).decode() for job in await redis.lrange(ListQueue.key, 0, -1)]


async def test_a_new_refinement_is_queued(store: Store, redis: Redis) -> None:
    created = await store.create(new(ticket="4711"), None)
    snapshot = await store.snapshot(TENANT, created.id)
    assert (snapshot.status, snapshot.last_event) == (Status.QUEUED, 1)
    assert snapshot.metadata == {"ticket": "4711"}
    assert await kinds(store, created.id) == [EventType.QUEUED]
    assert await jobs(redis) == [f"{created.id}-1"]


async def test_what_was_submitted_comes_back(store: Store, worker: WorkerStore) -> None:
    refinement_id = await submit(store)
    loaded = await worker.load(refinement_id)
    submitted, events = loaded.submitted, loaded.events
    assert submitted.request == await store.request(TENANT, refinement_id) == new().request
    assert submitted.models == new().models
    assert events == await store.decoded_events(TENANT, refinement_id)


async def test_the_request_itself_stays_out_of_the_journal(store: Store) -> None:
    events = await store.events(TENANT, await submit(store))
    assert DRAFT.encode() not in events[0].json


async def test_the_same_key_and_body_is_the_same_refinement(store: Store, redis: Redis) -> None:
    first = await store.create(new(), "key")
    second = await store.create(new(), "key")
    assert (second.id, first.replayed, second.replayed) == (first.id, False, True)
    assert len(await jobs(redis)) == 1


async def test_the_same_key_with_another_body_is_refused(store: Store) -> None:
    await store.create(new(), "key")
    with pytest.raises(IdempotencyMismatch):
        await store.create(new(body="b" * 64), "key")


async def test_a_key_belongs_to_one_tenant(store: Store) -> None:
    mine = await store.create(new("mine"), "key")
    yours = await store.create(new("yours", body="b" * 64), "key")
    assert mine.id != yours.id


async def test_a_key_may_be_of_any_length_and_is_forgotten_after_a_day(
    store: Store, redis: Redis
) -> None:
    key = "schlüssel " * 10_000
    assert (await store.create(new(), key)).id == (await store.create(new(), key)).id
    assert 86_000 < await redis.ttl(keys.idempotency(TENANT, key)) <= 86_400


async def test_fifty_at_once_with_one_key_are_one_refinement(store: Store, redis: Redis) -> None:
    created = await asyncio.gather(*(store.create(new(), "key") for _ in range(50)))
    assert len({it.id for it in created}) == 1
    assert [it.replayed for it in created].count(False) == 1
    assert len(await jobs(redis)) == 1


async def test_the_same_key_in_many_processes_is_one_refinement(
    store: Store, settings: Settings, queue: ListQueue, redis: Redis
) -> None:
    async with open_store(settings, queue) as other:
        created = await asyncio.gather(
            *(side.create(new(), f"key-{n}") for n in range(20) for side in (store, other))
        )
    assert len({it.id for it in created}) == 20 == len(await jobs(redis))


@pytest.mark.one_server
async def test_rq_carries_the_job_that_was_created(settings: Settings) -> None:
    async with open_store(settings, RefinementQueue("hone")) as store:
        created = await store.create(new(), "key")
        assert (await store.create(new(), "key")).replayed
    with BlockingRedis.from_url(settings.redis_url) as client:
        (job,) = Queue("hone", connection=client, serializer=JSONSerializer).jobs
    assert (job.id, job.args) == (f"{created.id}-1", [created.id])


async def test_a_full_queue_refuses_and_says_when_to_come_back(
    settings: Settings, queue: ListQueue, redis: Redis
) -> None:
    async with open_store(settings.model_copy(update={"queue_max": 2}), queue) as store:
        await submit(store)
        replayed_later = await store.create(new(), "key")
        with pytest.raises(Overloaded) as refused:
            await store.create(new(), "another key")
        assert refused.value.retry_after_s
        assert (await store.create(new(), "key")).id == replayed_later.id
    assert len(await jobs(redis)) == 2


async def test_new_work_is_refused_when_memory_is_nearly_full(
    settings: Settings, queue: ListQueue, redis: Redis
) -> None:
    used = (await redis.info("memory"))["used_memory"]
    await redis.config_set("maxmemory", int(used / 0.85))
    try:
        async with open_store(settings, queue) as store:
            with pytest.raises(Overloaded, match="memory"):
                await submit(store)
    finally:
        await redis.config_set("maxmemory", 0)
    assert await jobs(redis) == []


class CuttingQueue(ListQueue):
    """Cuts every connection, once, just before the script is sent."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._faults = 1

    def commands(
        self, refinement_id: str, job_id: str, *, is_first: bool = False
    ) -> Sequence[Sequence[Word]]:
        if self._faults:
            self._faults -= 1
            with BlockingRedis.from_url(self._url) as client:
                client.client_kill_filter(_type="normal", skipme=True)
        return super().commands(refinement_id, job_id, is_first=is_first)


@pytest.mark.one_server
@pytest.mark.parametrize("key", ["key", None])
async def test_a_connection_that_breaks_makes_no_second_refinement(
    settings: Settings, redis: Redis, key: str | None
) -> None:
    async with open_store(settings, CuttingQueue(settings.redis_url)) as store:
        created = await store.create(new(), key)
    assert not created.replayed
    assert await jobs(redis) == [f"{created.id}-1"]
    assert await redis.zcard(keys.refinement_list(TENANT)) == 1


class RepeatingCommitter(Committer):
    """Sends every script a second time, as redis-py does when the answer to the first is lost."""

    def submit(self, script: LuaScript, *args: str | bytes | int | float) -> asyncio.Future[Any]:
        super().submit(script, *args)
        return super().submit(script, *args)


@pytest.mark.parametrize("key", ["key", None])
async def test_a_submission_that_is_sent_twice_happens_once_and_is_no_replay(
    redis: Redis, queue: ListQueue, key: str | None
) -> None:
    await redis.hset(keys.SLOTS, "worker-1", "9")
    async with aclosing(RepeatingCommitter(redis)) as committer:
        created = await creation(committer, queue).create(new(), key)
    assert (created.replayed, created.snapshot.status) == (False, Status.QUEUED)
    assert await jobs(redis) == [f"{created.id}-1"]


def creation(committer: Committer, queue: ListQueue, clock: Clock = time.monotonic) -> Creation:
    return Creation(queue, committer, clock, queue_max=10, lease_ms=1_000, retention_ms=1_000)


async def test_the_queue_never_grows_longer_than_its_bound(
    settings: Settings, queue: ListQueue, redis: Redis
) -> None:
    bounded = settings.model_copy(update={"queue_max": 7})
    async with open_store(bounded, queue) as one, open_store(bounded, queue) as other:
        results = await asyncio.gather(
            *(side.create(new(), None) for _ in range(10) for side in (one, other)),
            return_exceptions=True,
        )
    assert [isinstance(it, Overloaded) for it in results].count(False) == 7
    assert len(await jobs(redis)) == 7


async def test_a_submission_is_answered_with_what_is_stored(store: Store) -> None:
    created = await store.create(new(ticket="4711"), "key")
    assert created.snapshot == await store.snapshot(TENANT, created.id)
    await store.cancel(TENANT, created.id)
    again = await store.create(new(ticket="4711"), "key")
    assert (again.snapshot.status, again.replayed) == (Status.CANCELED, True)


WHEN = {b"created_at", b"enqueued_at"}


@pytest.mark.one_server
async def test_redis_holds_what_rq_itself_would_have_written(
    settings: Settings, redis: Redis
) -> None:
    async with open_store(settings, RefinementQueue("hone")) as store:
        created = await store.create(new(), None)
    ours = await left_by_rq(redis)
    await redis.flushall()
    with BlockingRedis.from_url(settings.redis_url) as client:
        Queue("hone", connection=client, serializer=JSONSerializer).enqueue_call(
            JOB,
            args=[created.id],
            timeout=-1,
            result_ttl=0,
            failure_ttl=3600,
            description=f"refine {created.id}",
            job_id=f"{created.id}-1",
        )
    assert ours == await left_by_rq(redis)
    assert len(ours) == 3


async def left_by_rq(redis: Redis) -> dict[bytes, Any]:
    """Return RQ's keys, each with its type, whether it expires, and its content but for times.

    RQ compresses the arguments of a job, and reads them also if they are not compressed.
    """
    left: dict[bytes, Any] = {}
    for key in cast("list[bytes]", await redis.keys("rq:*")):
        kind, ttl = await redis.type(key), await redis.ttl(key)
        match kind:
            case b"hash":
                fields = await redis.hgetall(key)
                content: Any = {it: b"" if it in WHEN else fields[it] for it in fields}
                with suppress(zlib.error):
                    content[b"data"] = zlib.decompress(content[b"data"])
            case b"list":
                content = await redis.lrange(key, 0, -1)
            case _:
                content = await redis.smembers(key)
        left[key] = (kind, ttl, content)
    return left


@pytest.mark.parametrize("wrong_by_s", [-600, 0, 600])
async def test_ids_follow_the_clock_of_redis(
    committer: Committer, queue: ListQueue, wrong_by_s: float
) -> None:
    api = creation(committer, queue, lambda: time.time() + wrong_by_s)
    created = (await api.create(new(), None)).snapshot
    made_at = ULID.from_str(created.id.removeprefix("ref_")).datetime
    assert abs((made_at - created.created_at).total_seconds()) < 60


async def test_what_is_created_later_by_an_api_whose_clock_is_behind_is_listed_as_newer(
    store: Store, committer: Committer, queue: ListQueue
) -> None:
    early = creation(committer, queue, lambda: time.time() + 600)
    late = creation(committer, queue, lambda: time.time() - 600)
    first = [(await early.create(new(), None)).id for _ in range(3)]
    await late.server.measure()
    newest = ULID.from_str(first[-1].removeprefix("ref_")).milliseconds
    async with asyncio.timeout(TIMEOUT_S):
        while late.server.time_ms() <= newest:  # noqa: ASYNC110 - Redis may have told it late
            await asyncio.sleep(0.01)
    second = [(await late.create(new(), None)).id for _ in range(3)]
    page = await store.page(TENANT)
    assert [it.id for it in page.data] == [*reversed(second), *reversed(first)]


async def test_a_redis_that_is_away_is_unavailable(settings: Settings, queue: ListQueue) -> None:
    away = settings.model_copy(update={"redis_url": "redis://127.0.0.1:1/0"})
    with pytest.raises(Unavailable):
        async with open_store(away, queue):
            pass


async def test_another_tenants_refinement_is_not_found(store: Store) -> None:
    refinement_id = await submit(store)
    with pytest.raises(RefinementNotFound):
        await store.snapshot("other", refinement_id)
    with pytest.raises(RefinementNotFound):
        await store.request("other", refinement_id)
    with pytest.raises(RefinementNotFound):
        await store.events("other", refinement_id)


async def test_a_submission_that_comes_late_does_not_bring_back_what_was_erased(
    store: Store, redis: Redis
) -> None:
    refinement_id = await submit(store)
    await store.erase(TENANT, refinement_id)
    submission = [refinement_id, TENANT, *(["-"] * 11), "0"]
    late = await redis.eval(CREATE.text, 0, *submission)
    assert late == [refinement_id.encode(), 0, []]
    assert not await redis.exists(keys.SUMMARY + refinement_id)
