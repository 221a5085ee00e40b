"""The store in a cluster: where its keys are, and what it does when their slot moves."""

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis import Redis as BlockingRedis
from redis.asyncio import Redis
from redis.exceptions import MovedError

from app.contract.errors import Unavailable
from app.contract.events import EventType
from app.queue import worker_key
from app.settings import Settings
from app.store import (
    Store,
    UnusableRedis,
    WorkerStore,
    check_redis,
    open_cells,
    open_store,
    open_wakeups,
    open_worker_store,
)
from app.store.rate_limits import PermitReport, SharedLimits
from app.store.redis import keys
from app.store.redis.committer import Committer
from app.store.redis.connection import SlotIsMoving, async_client
from app.store.state import cell_coded_in
from app.store.wakeups import Wakeups
from tests.faults.sentinel import ServerProcess
from tests.redis_cluster import RedisCluster
from tests.store.store_harness import (
    TENANT,
    ListQueue,
    be_up,
    claim,
    kinds,
    started,
    step,
    submit,
    subscribers,
    take,
)
from tests.waiting import TIMEOUT_S

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"

pytestmark = pytest.mark.in_cluster


@pytest.fixture
def cluster(redis_server: RedisCluster) -> RedisCluster:
    return redis_server


@pytest.fixture
async def wakeups(settings: Settings) -> AsyncIterator[Wakeups]:
    async with open_wakeups(settings) as wakeups:
        yield wakeups


async def move(cluster: RedisCluster) -> None:
    await asyncio.to_thread(cluster.move_slot, cluster.another_primary)


@contextmanager
def stopped(node: ServerProcess) -> Iterator[None]:
    """Keep a node from answering."""
    assert node.process is not None
    node.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        node.process.send_signal(signal.SIGCONT)


async def until_subscribed(redis: Redis) -> None:
    while not await subscribers(redis, keys.COMMANDS):  # noqa: ASYNC110 - Redis does not tell
        await asyncio.sleep(0.01)


async def test_all_keys_have_one_tag(store: Store, worker: WorkerStore, redis: Redis) -> None:
    await (await started(store, worker)).journal.append([step()])
    names = [it.decode() async for it in redis.scan_iter()]
    assert {it.partition("}")[0] for it in names} == {"hone:{c00", "rq:{c00"}


async def test_a_node_without_the_slot_refuses_a_whole_script(cluster: RedisCluster) -> None:
    url = f"redis://127.0.0.1:{cluster.another_primary.port}"
    with BlockingRedis.from_url(url) as client, pytest.raises(MovedError):
        client.eval("return redis.call('SET', KEYS[1] .. 'a', 1)", 1, "hone:{c00}:")


async def test_work_goes_on_where_the_slot_has_moved(
    store: Store, worker: WorkerStore, redis: Redis, cluster: RedisCluster
) -> None:
    held, queued = await started(store, worker), await submit(store)
    await move(cluster)
    await held.journal.append([step()])
    assert await take(redis, 5) == [f"{held.id}-1", f"{queued}-1"]
    await claim(worker, queued)
    await be_up(redis)
    await worker.recover(include_queued=True)
    assert await kinds(store, held.id) == [
        EventType.QUEUED,
        EventType.STARTED,
        EventType.STEP_COMPLETED,
    ]
    assert {it.id for it in (await store.page(TENANT)).data} == {held.id, queued}


async def test_watchers_and_workers_hear_of_changes_where_the_slot_has_moved(
    store: Store, worker: WorkerStore, wakeups: Wakeups, redis: Redis, cluster: RedisCluster
) -> None:
    held = await started(store, worker)
    heard = asyncio.ensure_future(anext(worker.commands()))
    async with wakeups.watch(held.id) as changed:
        await until_subscribed(redis)
        await move(cluster)
        assert await changed.wait(TIMEOUT_S)  # subscribed anew, so that something may be missing
        await until_subscribed(redis)
        await store.cancel(TENANT, held.id)
        assert await changed.wait(TIMEOUT_S)
    assert await heard == held.id


async def test_a_slot_that_is_moved_key_by_key_stops_everything_and_loses_nothing(
    store: Store, worker: WorkerStore, cluster: RedisCluster
) -> None:
    held = await started(store, worker)
    with cluster.moving_key_by_key():
        for refused in (store.administration.workers(), submit(store)):
            with pytest.raises(Unavailable, match="moving the slot of Hone's keys key by key"):
                await refused
        with pytest.raises(SlotIsMoving):
            await held.journal.append([step()])
    await held.journal.append([step()])
    assert (await kinds(store, held.id))[2:] == [EventType.STEP_COMPLETED]


async def test_keys_that_were_moved_one_by_one_are_all_there(
    store: Store, worker: WorkerStore, cluster: RedisCluster
) -> None:
    held = await started(store, worker)
    source, target = cluster.owner, cluster.another_primary
    with cluster.moving_key_by_key(), source.client() as old, target.client() as new:
        with pytest.raises(SlotIsMoving):
            await held.journal.append([step()])
        names = old.execute_command("CLUSTER", "GETKEYSINSLOT", cluster.slot, 1_000)
        old.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5_000, "KEYS", *names)
        for node in (new, old):
            node.execute_command("CLUSTER", "SETSLOT", cluster.slot, "NODE", cluster.id_of(target))
    await held.journal.append([step()])
    assert (await kinds(store, held.id))[2:] == [EventType.STEP_COMPLETED]


async def test_the_url_of_one_node_is_refused_with_what_to_set(cluster: RedisCluster) -> None:
    with pytest.raises(UnusableRedis, match=r"set HONE_REDIS_URL to redis\+cluster://"):
        await check_redis(cluster.owner_url)


async def test_a_user_with_the_access_rules_of_the_page_carries_hone(
    settings: Settings, cluster: RedisCluster
) -> None:
    [line] = re.findall(r"^ACL SETUSER hone (.*)$", PAGE.read_text(), re.MULTILINE)
    [added] = re.findall(r"access-rules\) add `([^`]*)`", PAGE.read_text())
    rules = f"{line} {added}".replace("PASSWORD", "secret").replace("hone:1:", "hone:{c00}:")
    for node in cluster.nodes:
        with node.client() as client:
            client.execute_command("ACL", "SETUSER", "hone", "reset", *rules.split())
            client.execute_command("ACL", "LOG", "RESET")
    url = cluster.url.replace("://", "://hone:secret@")
    theirs = settings.model_copy(update={"redis_url": url})
    async with (
        open_store(theirs, ListQueue()) as store,
        open_worker_store(theirs, ListQueue(), "worker-1") as worker,
        open_wakeups(theirs) as wakeups,
    ):
        held = await started(store, worker)
        async with wakeups.watch(held.id) as changed:
            await held.journal.append([step()])
            assert await changed.wait(TIMEOUT_S)
        facts = await store.administration.inspect(worker_key)
        assert (len(facts.nodes), facts.missing, facts.moves_slots_at_once) == (6, (), True)
    with cluster.client() as client:
        denied = {entry["object"] for entry in client.acl_log()}
    assert denied == {"config|get"}  # it may not be asked, and doctor does without


async def test_a_cluster_is_found_by_any_of_its_nodes(
    settings: Settings, cluster: RedisCluster
) -> None:
    await check_redis(f"redis+cluster://127.0.0.1:1,127.0.0.1:{cluster.nodes[-1].port}")


async def test_nodes_that_a_node_has_named_are_asked_when_it_is_gone(cluster: RedisCluster) -> None:
    first = cluster.another_primary
    async with async_client(f"redis+cluster://{first.host}:{first.port}") as client:
        await client.set(keys.PROBE, 1)
        await client.connection_pool.disconnect()
        with stopped(first):
            assert await client.get(keys.PROBE) == b"1"


async def test_limits_of_models_are_shown(store: Store, committer: Committer) -> None:
    wrong_key = PermitReport(number=1, key_reason="unauthorized", detail="wrong key")
    await SharedLimits(committer, "worker-1").exchange("openai:x@f", "openai@f", wrong_key)
    shown = await store.administration.limits()
    assert {it.limit.name for it in shown} == {"openai:x", "openai"}


async def test_cells_of_one_cluster_share_no_key(
    settings: Settings, cluster: RedisCluster, redis: Redis
) -> None:
    several = settings.model_copy(update={"cells": 3})
    async with open_cells(several, ListQueue()) as cells:
        for cell in (1, 2):
            await cells.add(cell)
        made = [(await submit(store)) for store in cells.stores]
        assert [cell_coded_in(it) for it in made] == [0, 1, 2]
        for number, (store, refinement_id) in enumerate(zip(cells.stores, made, strict=True)):
            found = [it.id for it in (await store.page(TENANT)).data]
            assert found == [refinement_id], number
        listed = (await cells.page(TENANT)).data
        assert [it.id for it in listed] == sorted(made, reverse=True)
