"""Ended records in the archive: what is moved, read through it, brought back and erased."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from app.contract.errors import Conflict, RefinementNotFound, Unavailable
from app.contract.limits import LimitsChange
from app.contract.snapshot import Snapshot
from app.contract.status import Status
from app.settings import Settings
from app.store import (
    ArchiveAway,
    ArchiveTransfer,
    Store,
    WorkerStore,
    open_store,
    open_worker_store,
)
from app.store.archive import Archive, ArchivedAt, ObjectStore, open_archive
from app.store.redis import keys
from app.store.redis.committer import Committer
from app.store.refinements import RefinementReader
from app.store.sealing import NO_SEALER
from tests.store.store_harness import (
    BROKEN,
    FAILED,
    TENANT,
    HeldClaim,
    ListQueue,
    be_up,
    claim,
    everything,
    expire_retention,
    new,
    pack_now,
)
from tests.store.test_packing import failed, read, succeeded
from tests.store.test_ratings import GOOD

pytest.importorskip("obstore")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "archive"


@pytest.fixture
def settings(settings: Settings, directory: Path) -> Settings:
    return settings.model_copy(update={"archive_url": f"file://{directory}", "archive_after_s": 0})


@pytest.fixture
async def plain(settings: Settings, queue: ListQueue) -> AsyncIterator[Store]:
    """A store of the same Redis without the setting."""
    without = settings.model_copy(update={"archive_url": ""})
    async with open_store(without, queue) as store:
        yield store


async def archive_now(redis: Redis, worker: WorkerStore, *ids: str) -> None:
    """Let ended refinements be packed, and due to go to the archive."""
    for refinement_id in ids:
        await pack_now(redis, worker, refinement_id)
        await redis.zadd(keys.TO_ARCHIVE, {refinement_id: 1})
    assert worker.transfer
    while await worker.transfer.move_due():
        pass


async def is_archived(redis: Redis, refinement_id: str) -> bool:
    return bool(await redis.hexists(keys.SUMMARY + refinement_id, "stub"))


def objects_of(directory: Path, refinement_id: str) -> list[Path]:
    return sorted(directory.glob(f"*/*/{refinement_id}/*"))


def shown(snapshot: Snapshot) -> dict[str, Any]:
    return snapshot.model_dump(exclude={"archived"})


def without_flag(found: list[Any]) -> list[Any]:
    """Return what `read` returns, whether it is archived or not."""
    snapshot, request, prompts, pages = found
    told = [
        [(it.number, it.json.replace(b"true", b"false"), it.is_last) for it in page]
        for page in pages
    ]
    return [shown(snapshot), request, prompts, told]


async def test_an_archived_record_reads_as_before(
    store: Store, worker: WorkerStore, redis: Redis, directory: Path
) -> None:
    held = await succeeded(store, worker)
    await store.rate(TENANT, held.id, GOOD)
    before = await read(store, held.id)
    await archive_now(redis, worker, held.id)
    assert await is_archived(redis, held.id)
    assert len(objects_of(directory, held.id)) == 1
    assert not await redis.exists(keys.JOURNAL + held.id)
    assert without_flag(await read(store, held.id)) == without_flag(before)
    assert (await store.snapshot(TENANT, held.id)).archived


async def test_a_list_shows_an_archived_one_without_its_texts(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await succeeded(store, worker)
    (before,) = (await store.page(TENANT)).data
    await archive_now(redis, worker, held.id)
    (after,) = (await store.page(TENANT, metadata=before.metadata, status=before.status)).data
    assert after.archived
    assert after.result is None
    same = {"outcome", "stop_reason", "scores", "usage", "excerpt", "metadata", "created_at"}
    same |= {"started_at", "ended_at", "expires_at", "strategy", "threshold", "max_iterations"}
    assert after.model_dump(include=same) == before.model_dump(include=same)
    assert before.best
    assert after.best
    assert (after.best.score, after.best.path) == (before.best.score, before.best.path)


async def test_an_archived_one_is_found_by_what_a_list_shows(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    async def found(query: str) -> list[str]:
        return [it.id for it in (await store.page(TENANT, query=query)).data]

    held = await succeeded(store, worker)
    assert await found("entwurf plainly") == [held.id]
    await archive_now(redis, worker, held.id)
    assert await found("entwurf") == await found(held.id.lower()) == [held.id]
    assert await found("plainly") == []
    await store.erase(TENANT, held.id)
    assert await redis.exists(keys.SIGNATURES + TENANT) == 0


async def test_a_retry_brings_it_back_as_it_was(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await failed(store, worker)
    events = await store.events(TENANT, held.id)
    await archive_now(redis, worker, held.id)
    await store.retry(TENANT, held.id, command_id="again")
    assert not await is_archived(redis, held.id)
    assert [it.json for it in await store.events(TENANT, held.id)][: len(events) - 1] == [
        it.json for it in events[:-1]
    ]
    await claim(worker, held.id, 2)


async def let_hours_end(redis: Redis, worker: WorkerStore) -> None:
    """Let the hours of all stubs have ended but the last one."""
    hours = cast("list[bytes]", await redis.zrange(keys.EXPIRING, 0, -2))
    await redis.zadd(keys.EXPIRING, dict.fromkeys(hours, 1))
    await archive_now(redis, worker)
    await be_up(redis)
    await worker.recover(include_queued=False)


async def expire_later(redis: Redis, refinement_id: str) -> None:
    """Let the retention of an ended refinement have begun two hours later."""
    await redis.hincrby(keys.SUMMARY + refinement_id, "expires_at", 7_200_000)


async def test_one_that_was_retried_is_kept_until_its_second_retention_ends(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await failed(store, worker)
    await archive_now(redis, worker, held.id)
    await store.retry(TENANT, held.id)
    again = await claim(worker, held.id, 2)
    await again.journal.append([FAILED], BROKEN, to=Status.FAILED)
    await expire_later(redis, held.id)
    await archive_now(redis, worker, held.id)
    await let_hours_end(redis, worker)
    assert (await store.snapshot(TENANT, held.id)).status is Status.FAILED


async def test_a_command_that_is_repeated_has_taken_effect_once(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await succeeded(store, worker)
    event, _ = await store.rate(TENANT, held.id, GOOD, command_id="once")
    await archive_now(redis, worker, held.id)
    again, is_replayed = await store.rate(TENANT, held.id, GOOD, command_id="once")
    assert (again.event, is_replayed) == (event.event, True)
    await archive_now(redis, worker, held.id)
    another, is_replayed = await store.rate(TENANT, held.id, GOOD)
    assert (another.event, is_replayed) == (event.event + 1, False)


async def test_what_a_command_does_with_an_archived_record_is_what_it_does_with_another(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    for archives in (False, True):
        held = await succeeded(store, worker)
        if archives:
            await archive_now(redis, worker, held.id)
        for command_id in (None, "mine"):
            for command in (store.cancel, store.finish):
                with pytest.raises(Conflict, match="has ended"):
                    await command(TENANT, held.id, command_id)
            with pytest.raises(Conflict, match="has ended"):
                await store.change(TENANT, held.id, LimitsChange(max_iterations=9), command_id)
        with pytest.raises(RefinementNotFound):
            await store.change("another", held.id, LimitsChange(max_iterations=9))
        with pytest.raises(Conflict, match="only a failed refinement"):
            await store.retry(TENANT, held.id)


async def erased(store: Store, worker: WorkerStore, redis: Redis, held: HeldClaim) -> None:
    await store.erase(TENANT, held.id)


async def expired(store: Store, worker: WorkerStore, redis: Redis, held: HeldClaim) -> None:
    await expire_retention(redis, held.id)
    await worker.recover(include_queued=False)
    assert worker.transfer
    await worker.transfer.move_due()


async def expired_as_a_stub(
    store: Store, worker: WorkerStore, redis: Redis, held: HeldClaim
) -> None:
    (hour,) = cast("list[bytes]", await redis.zrange(keys.EXPIRING, 0, -1))
    await redis.zadd(keys.EXPIRING, {hour: 1})
    await be_up(redis)
    await worker.recover(include_queued=False)
    await archive_now(redis, worker)


async def brought_back(store: Store, worker: WorkerStore, redis: Redis, held: HeldClaim) -> None:
    await store.rate(TENANT, held.id, GOOD)
    await store.erase(TENANT, held.id)


@pytest.mark.parametrize("end", [erased, expired, expired_as_a_stub, brought_back])
async def test_nothing_is_left_of_what_is_deleted(
    store: Store, worker: WorkerStore, redis: Redis, directory: Path, end: Callable[..., Any]
) -> None:
    held = await succeeded(store, worker)
    await archive_now(redis, worker, held.id)
    await end(store, worker, redis, held)
    assert [*directory.rglob(held.id), *directory.rglob(TENANT)] == []
    left = await everything(redis)
    del left[ListQueue.key.encode()]
    once_more = left.pop(keys.TO_ERASE.encode())
    assert once_more == [f"{TENANT} {held.id} again".encode()]
    named = [key for key, value in left.items() if held.id in f"{key!r} {value!r}"]
    assert all(key.startswith(keys.EXPIRING.encode()) for key in named), "until its hour comes"
    with pytest.raises(RefinementNotFound):
        await store.events(TENANT, held.id)


async def test_all_stubs_of_an_hour_go_once_it_has_ended_whatever_the_archive_does(
    worker: WorkerStore, redis: Redis
) -> None:
    hour = keys.EXPIRING + ":1"
    await redis.rpush(hour, *(f"ref_{number}" for number in range(250)))
    await redis.zadd(keys.EXPIRING, {"1": 1})
    await be_up(redis)
    await worker.recover(include_queued=False)
    assert not await redis.exists(hour, keys.EXPIRING)


async def test_what_was_being_written_while_it_was_erased_goes_as_well(
    store: Store, worker: WorkerStore, redis: Redis, directory: Path
) -> None:
    held = await succeeded(store, worker)
    await archive_now(redis, worker, held.id)
    (late,) = objects_of(directory, held.id)
    content = late.read_bytes()
    await store.erase(TENANT, held.id)
    late.parent.mkdir(parents=True)
    late.write_bytes(content)
    await redis.zadd(keys.TO_ERASE, {f"{TENANT} {held.id} again": 1})
    assert worker.transfer
    await worker.transfer.move_due()
    assert objects_of(directory, held.id) == []
    assert not await redis.exists(keys.TO_ERASE)


async def test_a_store_that_is_away_holds_up_nothing_but_the_texts_in_it(
    store: Store, worker: WorkerStore, redis: Redis, directory: Path
) -> None:
    held, later = await succeeded(store, worker), await succeeded(store, worker)
    await archive_now(redis, worker, held.id)
    directory.rename(away := directory.with_name("away"))
    directory.write_text("in its place")
    with pytest.raises(ArchiveAway):
        await archive_now(redis, worker, later.id)
    assert not await is_archived(redis, later.id)
    with pytest.raises(Unavailable) as refused:
        await store.snapshot(TENANT, held.id)
    assert refused.value.retry_after_s == 30
    assert {it.id for it in (await store.page(TENANT)).data} == {held.id, later.id}
    assert (await store.create(new(), None)).snapshot.status == "queued"
    assert (await store.administration.archive()).failing_since
    await store.erase(TENANT, held.id)

    directory.unlink()
    away.rename(directory)
    await archive_now(redis, worker, later.id)
    assert await is_archived(redis, later.id)
    assert objects_of(directory, held.id) == []
    assert not (await store.administration.archive()).failing_since


async def test_without_the_setting_an_archived_record_is_no_empty_one(
    store: Store, worker: WorkerStore, redis: Redis, plain: Store
) -> None:
    held = await failed(store, worker)
    await archive_now(redis, worker, held.id)
    for reading in (plain.snapshot, plain.request, plain.events, plain.retry):
        with pytest.raises(Unavailable, match="HONE_ARCHIVE_URL is not set"):
            await reading(TENANT, held.id)
    assert (await plain.page(TENANT)).data[0].archived


class RatedMeanwhile(Archive):
    """An archive, while whose objects are written somebody rates the refinement."""

    def __init__(self, settings: Settings, store: Store) -> None:
        super().__init__(ObjectStore(settings.archive_url), NO_SEALER)
        self._store = store

    async def write(self, *place: Any) -> ArchivedAt:
        at = await super().write(*place)
        await self._store.rate(TENANT, at.id, GOOD)
        return at


async def test_what_changes_while_it_is_archived_stays_in_redis(
    settings: Settings,
    store: Store,
    worker: WorkerStore,
    redis: Redis,
    committer: Committer,
    directory: Path,
) -> None:
    held = await succeeded(store, worker)
    await pack_now(redis, worker, held.id)
    await redis.zadd(keys.TO_ARCHIVE, {held.id: 1})
    await ArchiveTransfer(committer, RatedMeanwhile(settings, store), 0).move_due()
    assert not await is_archived(redis, held.id)
    await archive_now(redis, worker, held.id)
    assert await is_archived(redis, held.id)
    assert len(objects_of(directory, held.id)) == 2
    await store.erase(TENANT, held.id)
    assert objects_of(directory, held.id) == []


class SentAgainMeanwhile(Archive):
    """An archive that lets a webhook be sent again while its record is written into the archive."""

    def __init__(self, settings: Settings, redis: Redis) -> None:
        super().__init__(ObjectStore(settings.archive_url), NO_SEALER)
        self._redis = redis

    async def write(self, *place: Any) -> ArchivedAt:
        at = await super().write(*place)
        await self._redis.zadd(keys.OUTBOX, {f"{at.id} 9": 1})
        return at


async def test_what_has_a_webhook_to_send_stays_in_redis(
    settings: Settings, store: Store, worker: WorkerStore, redis: Redis, committer: Committer
) -> None:
    held = await succeeded(store, worker)
    await pack_now(redis, worker, held.id)
    await redis.hset(keys.DELIVERIES + held.id, "9", "{}")
    await redis.zadd(keys.TO_ARCHIVE, {held.id: 1})
    await ArchiveTransfer(committer, SentAgainMeanwhile(settings, redis), 0).move_due()
    assert not await is_archived(redis, held.id)
    await redis.zrem(keys.OUTBOX, f"{held.id} 9")
    await archive_now(redis, worker, held.id)
    assert await is_archived(redis, held.id)


class ArchivedMeanwhile:
    """Runs commands, and archives a record just before its summary is read."""

    def __init__(self, committer: Committer, archive: Callable[[], Awaitable[None]]) -> None:
        self._committer = committer
        self._archive = archive

    def execute(self, *command: Any) -> asyncio.Future[Any]:
        if command[0] != "HGETALL":
            return self._committer.execute(*command)

        async def archived_first() -> Any:
            await self._archive()
            return await self._committer.execute(*command)

        return asyncio.ensure_future(archived_first())


async def test_a_journal_that_is_archived_while_it_is_read_is_read_from_the_archive(
    settings: Settings, store: Store, worker: WorkerStore, redis: Redis, committer: Committer
) -> None:
    held = await succeeded(store, worker)
    before = [event.number for event in await store.events(TENANT, held.id, 0, 100)]
    commands = ArchivedMeanwhile(committer, lambda: archive_now(redis, worker, held.id))
    reader = RefinementReader(cast("Committer", commands), NO_SEALER, open_archive(settings))
    found = await reader.events(TENANT, held.id, 0, 100)
    assert [event.number for event in found] == before
    assert await is_archived(redis, held.id)


async def test_what_was_packed_before_there_was_an_archive_goes_there(
    settings: Settings, queue: ListQueue, store: Store, redis: Redis
) -> None:
    without = settings.model_copy(update={"archive_url": ""})
    async with open_worker_store(without, queue, "worker-1") as before:
        held = await succeeded(store, before)
        await pack_now(redis, before, held.id)
    assert not await redis.exists(keys.TO_ARCHIVE)
    async with open_worker_store(settings, queue, "worker-2") as worker:
        assert worker.transfer
        await worker.transfer.move_due()
    assert await is_archived(redis, held.id)


async def test_a_store_that_has_no_mark_of_this_service_is_not_used(
    settings: Settings,
    queue: ListQueue,
    store: Store,
    worker: WorkerStore,
    redis: Redis,
    directory: Path,
) -> None:
    held, later = await succeeded(store, worker), await succeeded(store, worker)
    await archive_now(redis, worker, held.id)
    directory.rename(directory.with_name("another"))
    async with open_worker_store(settings, queue, "worker-2") as started:
        with pytest.raises(ArchiveAway, match="has no mark of this service"):
            await archive_now(redis, started, later.id)
    assert not await is_archived(redis, later.id)
