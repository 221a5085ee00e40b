"""The archive is compared with Redis, cleared with care, and gives back what Redis has lost."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from pydantic import SecretStr
from redis.asyncio import Redis
from typer.testing import CliRunner, Result

from app.access.tenants import exported_tenant
from app.cli import app
from app.contract.errors import Unavailable
from app.contract.status import Status
from app.settings import Settings
from app.store import ArchiveAway, Store, WorkerStore, open_store, open_worker_store
from app.store.archive_check import RefusedDeletion
from app.store.cells import Cells
from app.store.redis import keys
from tests.store.store_harness import TENANT, HeldClaim, ListQueue, copied, pack_now, restore
from tests.store.test_archive import (
    archive_now,
    directory,
    expire_later,
    is_archived,
    let_hours_end,
    objects_of,
    settings,
    without_flag,
)
from tests.store.test_packing import read, succeeded
from tests.store.test_ratings import GOOD

__all__ = ["directory", "settings"]  # fixtures

pytest.importorskip("obstore")

Command = Callable[..., Awaitable[Result]]
MONTH_S = 30 * 86_400
OLD, NEW = SecretStr("the old key of the server"), SecretStr("the new key of the server")


def let_be_old(directory: Path, refinement_id: str) -> None:
    """Let the objects of a refinement have been written a month ago."""
    before = time.time() - MONTH_S
    for path in objects_of(directory, refinement_id):
        os.utime(path, (before, before))


async def forget(redis: Redis, refinement_id: str) -> None:
    """Let Redis have lost a refinement, as an older copy of it has."""
    await redis.delete(keys.SUMMARY + refinement_id)
    for name in (keys.refinement_list(TENANT), keys.listed_by_status(TENANT, "succeeded")):
        await redis.zrem(name, refinement_id)
    await redis.zrem(keys.DUE, refinement_id)


async def restore_stubs(store: Store, installation: str = "") -> int:
    """Rebuild what Redis has lost from the archive, as the command does."""
    return await (await Cells([store]).archive_check()).restore(installation)


async def archived(store: Store, worker: WorkerStore, redis: Redis) -> HeldClaim:
    held = await succeeded(store, worker)
    await archive_now(redis, worker, held.id)
    return held


async def test_workers_that_begin_at_once_mark_one_installation(
    worker: WorkerStore, directory: Path
) -> None:
    assert worker.transfer is not None
    drawn = await asyncio.gather(*(worker.transfer.installation() for _ in range(4)))
    assert [path.parent.name for path in directory.rglob("installation")] == [*set(drawn)]


async def test_an_object_without_a_stub_is_named_and_kept_until_it_is_old(
    store: Store, worker: WorkerStore, redis: Redis, directory: Path
) -> None:
    kept, lost = [await archived(store, worker, redis) for _ in range(2)]
    await forget(redis, lost.id)
    found = await store.archive_check.compare()
    assert [at.id for at in found.unnamed] == [lost.id]
    assert (found.deletable, found.missing) == ((), ())
    await store.archive_check.delete(found)
    assert objects_of(directory, lost.id)
    let_be_old(directory, lost.id)
    with pytest.raises(RefusedDeletion, match="1 of 2 objects would be deleted, more than 1%"):
        await store.archive_check.delete(await store.archive_check.compare())
    assert objects_of(directory, lost.id)
    for number in range(98):  # so that one is not too many
        copy = objects_of(directory, kept.id)[0]
        copy.with_name(f"{number:012}").write_bytes(copy.read_bytes())
    found = await store.archive_check.compare()
    assert [at.id for at in found.deletable] == [lost.id]
    await store.archive_check.delete(found)
    assert objects_of(directory, lost.id) == []
    assert len(objects_of(directory, kept.id)) == 99, "those of a record that has a young one"


async def test_a_stub_without_its_object_is_named(
    store: Store, worker: WorkerStore, redis: Redis, directory: Path
) -> None:
    held = await archived(store, worker, redis)
    objects_of(directory, held.id)[0].unlink()
    assert (await store.archive_check.compare()).missing == (held.id,)
    with pytest.raises(Unavailable, match="its object is missing"):
        await store.snapshot(TENANT, held.id)
    await store.erase(TENANT, held.id)
    assert (await store.archive_check.compare()).missing == ()


async def test_an_object_whose_record_was_brought_back_is_not_without_a_stub(
    store: Store, worker: WorkerStore, redis: Redis, directory: Path
) -> None:
    held = await archived(store, worker, redis)
    await store.rate(TENANT, held.id, GOOD)
    let_be_old(directory, held.id)
    assert (await store.archive_check.compare()).unnamed == ()
    await archive_now(redis, worker, held.id)
    found = await store.archive_check.compare()
    assert len(found.unnamed) == 1
    assert found.deletable == (), "an older copy of Redis may name it"


async def test_a_lost_stub_is_rebuilt_and_one_that_was_erased_is_not(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    lost, gone = [await archived(store, worker, redis) for _ in range(2)]
    before, listed = await read(store, lost.id), (await store.page(TENANT)).data[-1]
    await forget(redis, lost.id)
    await store.erase(TENANT, gone.id)
    assert await restore_stubs(store) == 1
    assert await restore_stubs(store) == 0
    assert without_flag(await read(store, lost.id)) == without_flag(before)
    assert (await store.page(TENANT)).data == (listed,)
    await store.erase(TENANT, lost.id)
    assert (await store.page(TENANT)).data == ()


async def test_an_older_copy_of_redis_loses_no_object(
    store: Store, worker: WorkerStore, redis: Redis, directory: Path
) -> None:
    first = await archived(store, worker, redis)
    rated, whole = await archived(store, worker, redis), await succeeded(store, worker)
    copy = await copied(redis)
    await store.rate(TENANT, rated.id, GOOD)
    await archive_now(redis, worker, rated.id, whole.id)
    since = await archived(store, worker, redis)
    await restore(redis, copy)
    held = (first, rated, whole, since)
    for of in held:
        let_be_old(directory, of.id)
    assert {it.id for it in (await store.archive_check.compare()).unnamed} == {since.id, rated.id}
    assert await restore_stubs(store) == 2
    for of in held:
        assert (await store.snapshot(TENANT, of.id)).result
    assert (
        len(await store.events(TENANT, rated.id)) == len(await store.events(TENANT, first.id)) + 1
    )
    await archive_now(redis, worker, whole.id)
    assert await is_archived(redis, whole.id)


async def test_an_empty_redis_reads_everything_again(
    store: Store, worker: WorkerStore, redis: Redis, directory: Path
) -> None:
    held = await archived(store, worker, redis)
    before = await read(store, held.id)
    assert worker.transfer
    installation = await worker.transfer.installation()
    await redis.flushall()
    assert await restore_stubs(store, installation) == 1
    assert without_flag(await read(store, held.id)) == without_flag(before)
    assert await worker.transfer.installation() == installation


async def test_two_installations_under_one_prefix_never_meet(
    store: Store, worker: WorkerStore, redis: Redis, directory: Path
) -> None:
    of_first = await archived(store, worker, redis)
    assert worker.transfer
    first = await worker.transfer.installation()
    await redis.flushall()
    of_second = await archived(store, worker, redis)
    second = await worker.transfer.installation()
    assert second != first
    found = await store.archive_check.compare()
    assert (found.objects, found.unnamed) == (1, ())
    await store.erase(TENANT, of_second.id)
    assert await restore_stubs(store, first) == 1
    assert (await store.snapshot(TENANT, of_first.id)).result
    assert len(objects_of(directory, of_first.id)) == 2, "it was copied, and its own stays"
    await store.erase(TENANT, of_first.id)
    assert [it.parts[-4] for it in objects_of(directory, of_first.id)] == [first]


async def test_nothing_is_deleted_where_the_mark_is_missing_or_another(
    store: Store, worker: WorkerStore, redis: Redis, directory: Path
) -> None:
    held = await archived(store, worker, redis)
    await forget(redis, held.id)
    found = await store.archive_check.compare()
    (mark,) = directory.glob("*/installation")
    mark.write_text("another")
    for _ in range(2):
        with pytest.raises(ArchiveAway, match="no mark of this service"):
            await store.archive_check.delete(found)
        mark.unlink(missing_ok=True)
    assert objects_of(directory, held.id)


@pytest.fixture
async def keyed(settings: Settings, queue: ListQueue) -> AsyncIterator[tuple[Store, WorkerStore]]:
    own = settings.model_copy(update={"secret_key": OLD})
    async with open_store(own, queue) as store, open_worker_store(own, queue, "w") as worker:
        yield store, worker


async def test_objects_are_sealed_under_the_secret_key_and_its_rotation_covers_them(
    settings: Settings,
    queue: ListQueue,
    keyed: tuple[Store, WorkerStore],
    redis: Redis,
    directory: Path,
) -> None:
    store, worker = keyed
    held = await archived(store, worker, redis)
    before = await read(store, held.id)
    (path,) = objects_of(directory, held.id)
    sealed = path.read_bytes()
    both = settings.model_copy(update={"secret_key": NEW, "secret_key_old": OLD})
    async with open_store(both, queue) as rotating:
        assert (await rotating.seal_all())["archived records"] == 1
        assert +await rotating.seal_all() == {}
    assert path.read_bytes() != sealed
    new = settings.model_copy(update={"secret_key": NEW})
    async with open_store(new, queue) as after:
        assert await read(after, held.id) == before
    without = settings.model_copy(update={"secret_key": None})
    async with open_store(without, queue) as other:
        with pytest.raises(Unavailable, match="another HONE_SECRET_KEY"):
            await other.snapshot(TENANT, held.id)


async def test_a_damaged_object_is_not_read(
    store: Store, worker: WorkerStore, redis: Redis, directory: Path
) -> None:
    held = await archived(store, worker, redis)
    (path,) = objects_of(directory, held.id)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Unavailable, match="its object is damaged"):
        await store.snapshot(TENANT, held.id)
    await pack_now(redis, worker, held.id)
    assert await is_archived(redis, held.id)


async def test_a_rating_since_a_copy_was_made_comes_back(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await archived(store, worker, redis)
    older = await copied(redis)
    await store.rate(TENANT, held.id, GOOD)
    await expire_later(redis, held.id)
    await archive_now(redis, worker, held.id)
    known = await read(store, held.id)
    await restore(redis, older)
    assert await restore_stubs(store) == 1
    await let_hours_end(redis, worker)
    assert without_flag(await read(store, held.id)) == without_flag(known)
    assert await restore_stubs(store) == 0
    assert [it.id for it in (await store.page(TENANT, status=Status.SUCCEEDED)).data] == [held.id]


async def damaged(store: Store, worker: WorkerStore, redis: Redis, directory: Path) -> list[str]:
    """Return ids of three archived refinements, of which one is cut off and one another's copy."""
    cut, copy, whole = [await archived(store, worker, redis) for _ in range(3)]
    (path,) = objects_of(directory, cut.id)
    path.write_bytes(path.read_bytes()[:100])
    (path,), (other,) = objects_of(directory, copy.id), objects_of(directory, whole.id)
    path.write_bytes(other.read_bytes())
    return [cut.id, copy.id, whole.id]


async def test_an_object_that_is_not_what_was_written_is_read_by_nobody(
    store: Store, worker: WorkerStore, redis: Redis, directory: Path
) -> None:
    cut, copy, whole = await damaged(store, worker, redis, directory)
    for refinement_id in (cut, copy):
        with pytest.raises(Unavailable, match="its object is damaged"):
            await store.snapshot(TENANT, refinement_id)
    assert (await store.snapshot(TENANT, whole)).id == whole
    exported = [
        it async for it in exported_tenant(Cells([store]), TENANT) if it["kind"] == "refinement"
    ]
    assert ["unreadable" in it for it in exported] == [False, True, True]
    assert ["events" in it for it in exported] == [True, False, False]


async def test_what_cannot_be_read_keeps_nothing_else_from_coming_back(
    store: Store, worker: WorkerStore, redis: Redis, directory: Path, command: Command
) -> None:
    ids = await damaged(store, worker, redis, directory)
    assert (await command("check")).exit_code == 0
    checked = await command("check", "--read")
    assert (checked.exit_code, "damaged: 2" in checked.stdout) == (1, True)
    for refinement_id in ids:
        await forget(redis, refinement_id)
    restored = await command("restore")
    assert restored.exit_code == 1
    assert restored.stdout.startswith("restored: 1 refinements\nobjects that could not be read")
    assert all(refinement_id in restored.stdout for refinement_id in ids[:2])


async def test_objects_outlive_an_erasure_while_their_directory_is_elsewhere(
    store: Store, worker: WorkerStore, redis: Redis, directory: Path
) -> None:
    held = await archived(store, worker, redis)
    directory.rename(directory.with_name("away"))
    await store.erase(TENANT, held.id)
    assert await redis.zcard(keys.TO_ERASE) == 2
    directory.with_name("away").rename(directory)
    assert objects_of(directory, held.id)
    await redis.zadd(keys.TO_ERASE, {f"{TENANT} {held.id}": 1})
    assert worker.transfer
    await worker.transfer.move_due()
    assert objects_of(directory, held.id) == []


@pytest.fixture
def command(settings: Settings) -> Command:
    """`hone archive` for the Redis and the directory of the test."""
    where = {"HONE_REDIS_URL": settings.redis_url, "HONE_ARCHIVE_URL": settings.archive_url}

    async def run(*arguments: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, app, ["archive", *arguments], env=where)

    return run


async def test_commands_tell_what_is_lost_and_bring_it_back(
    store: Store, worker: WorkerStore, redis: Redis, directory: Path, command: Command
) -> None:
    held = await archived(store, worker, redis)
    (record,) = objects_of(directory, held.id)
    await forget(redis, held.id)
    said = (await command("check")).stdout
    assert said.startswith(f"installation {record.relative_to(directory).parts[0]}: 1 objects\n")
    assert "without a stub: 1, old enough: 0\n" in said
    assert str(record.relative_to(directory)) in said
    let_be_old(directory, held.id)
    refused = await command("check", "--delete")
    assert (refused.exit_code, objects_of(directory, held.id)) == (1, [record])
    assert "Error: nothing was deleted: 1 of 1 objects" in refused.stderr
    assert (await command("restore")).stdout == "restored: 1 refinements\n"
    assert "without a stub: 0, old enough: 0\n" in (await command("check")).stdout
    record.unlink()
    missing = await command("check")
    assert missing.exit_code == 1
    assert missing.stdout.endswith(f"refinements without their object: 1\n  {held.id}\n")


@pytest.mark.parametrize("arguments", [("check",), ("restore",)])
async def test_commands_without_an_archive_name_the_setting(
    settings: Settings, arguments: tuple[str, ...]
) -> None:
    where = {"HONE_REDIS_URL": settings.redis_url, "HONE_ARCHIVE_URL": ""}
    run = CliRunner().invoke
    refused = await asyncio.to_thread(run, app, ["archive", *arguments], env=where)
    assert (refused.exit_code, "HONE_ARCHIVE_URL" in refused.stderr) == (1, True)
