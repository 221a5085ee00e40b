"""What is done to a running cluster, at moments that its seed chooses; each undoes what it did."""

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import aiohttp
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from app.contract.events import Queued
from app.contract.models import ModelChoice
from app.contract.requests import RefinementRequest
from app.contract.status import Status
from app.queue import RefinementQueue
from app.store import open_cells, open_store, open_worker_store
from app.store.cells import Cells
from app.store.redis import keys
from app.store.state import NewRefinement, cell_coded_in
from tests.faults.cluster import (
    CELLS,
    LEASE_S,
    CellsCluster,
    Cluster,
    ReplicatedCluster,
    ShardedCluster,
)
from tests.faults.figures import BACK_GOAL_S
from tests.faults.history import Loss
from tests.waiting import TIMEOUT_S

Nemesis = Callable[[Cluster], Coroutine[Any, Any, None]]

OUTAGE_S = 4.0
CROWD = 3_000
CROWD_S = 30.0
"""How long refinements of another tenant stay, once all are queued."""
OTHER_TENANT = "crowd"


async def nothing(_cluster: Cluster) -> None:
    """Disturb nothing."""


async def pause(cluster: Cluster, shortest_s: float, longest_s: float) -> None:
    """Wait for a random time."""
    await asyncio.sleep(cluster.chance.uniform(shortest_s, longest_s))


def kills(count: int, shortest_s: float, longest_s: float) -> Nemesis:
    """Return one that kills a worker `count` times."""

    async def kill(cluster: Cluster) -> None:
        for _ in range(count):
            await pause(cluster, shortest_s, longest_s)
            cluster.kill_worker()

    return kill


async def kill_all_workers(cluster: Cluster) -> None:
    """Kill all workers at once, three times."""
    for _ in range(3):
        await pause(cluster, 6, 8)
        cluster.kill_workers()


async def kill_api(cluster: Cluster) -> None:
    """Kill the API ten times."""
    for _ in range(10):
        await pause(cluster, 1.5, 2.5)
        cluster.kill_api()


async def kill_redis(cluster: Cluster) -> None:
    """Kill Redis ten times."""
    for _ in range(10):
        await pause(cluster, 1, 3)
        cluster.kill_redis()


async def stop_redis(cluster: Cluster) -> None:
    """Stop Redis for 5, 12 and 30 s."""
    for seconds in (5, 12, 30):
        await pause(cluster, 2, 4)
        with cluster.frozen(cluster.redis.pid):
            await asyncio.sleep(seconds)
        cluster.counts["stops of Redis"] += 1


async def kill_everything(cluster: Cluster) -> None:
    """Kill a worker 40 times, Redis 4 times and the API 4 times, in any order."""
    faults = [cluster.kill_worker] * 40 + [cluster.kill_redis, cluster.kill_api] * 4
    cluster.chance.shuffle(faults)
    for fault in faults:
        await pause(cluster, 0.3, 2.0)
        fault()


async def kill_each(cluster: Cluster) -> None:
    """Kill two workers, the API and Redis, one after the other."""
    faults = [cluster.kill_worker, cluster.kill_worker, cluster.kill_redis, cluster.kill_api]
    cluster.chance.shuffle(faults)
    for fault in faults:
        await pause(cluster, 0.5, 1.0)
        fault()


async def stop_workers(cluster: Cluster) -> None:
    """Stop a worker for longer than its lease, then let it continue, four times."""
    for _ in range(4):
        await pause(cluster, 1, 2)
        worker = cluster.chance.choice(cluster.workers)
        worker.send(signal.SIGSTOP)
        async with cluster.detached(worker, "stop"):
            await pause(cluster, LEASE_S + 1, LEASE_S + 3)
            worker.send(signal.SIGCONT)
            await asyncio.sleep(1)  # until it has learnt what it lost
        cluster.counts["stops of workers"] += 1


def resets(count: int) -> Nemesis:
    """Return one that resets all connections to Redis `count` times."""

    async def reset(cluster: Cluster) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(count):
            await pause(cluster, 0.1, 0.4)
            for proxy in cluster.proxies.values():
                cluster.counts["connections reset"] += await loop.run_in_executor(None, proxy.reset)

    return reset


async def silence(cluster: Cluster) -> None:
    """Let one process's connections to Redis stay open and carry nothing, for 2 to 8 s."""
    for name in cluster.chance.sample([*cluster.proxies] * 2, 4):
        await pause(cluster, 1, 2)
        process, proxy = cluster.processes[name], cluster.proxies[name]
        async with cluster.detached(process, "silence"):
            proxy.is_silent = True
            await pause(cluster, 2, LEASE_S + 3)
            proxy.is_silent = False
            await asyncio.sleep(1)
        cluster.counts["silences"] += 1


async def delay(cluster: Cluster) -> None:
    """Delay everything to and from Redis by up to 100 ms each way."""
    for _ in range(20):
        for proxy in cluster.proxies.values():
            proxy.delay_s = cluster.chance.uniform(0, 0.1)
        await asyncio.sleep(1)
    for proxy in cluster.proxies.values():
        proxy.delay_s = 0
    cluster.counts["s of delays"] += 20


@contextmanager
def full(cluster: Cluster) -> Iterator[None]:
    """Let Redis refuse writes for want of memory (OOM)."""
    cluster.command("CONFIG", "SET", "maxmemory", 1)
    try:
        yield
    finally:
        cluster.command("CONFIG", "SET", "maxmemory", 0)


@contextmanager
def read_only(cluster: Cluster) -> Iterator[None]:
    """Let Redis be a replica of a server that is not there (READONLY)."""
    cluster.command("REPLICAOF", "127.0.0.1", 1)
    try:
        yield
    finally:
        cluster.command("REPLICAOF", "NO", "ONE")


@contextmanager
def without_replicas(cluster: Cluster) -> Iterator[None]:
    """Let Redis miss the replica that it must have (NOREPLICAS)."""
    cluster.command("CONFIG", "SET", "min-replicas-to-write", 1)
    try:
        yield
    finally:
        cluster.command("CONFIG", "SET", "min-replicas-to-write", 0)


@contextmanager
def without_snapshots(cluster: Cluster) -> Iterator[None]:
    """Let Redis fail to write its snapshot (MISCONF)."""
    in_the_way = cluster.settings.data_dir / "redis" / "dump.rdb"
    in_the_way.mkdir()
    cluster.command("CONFIG", "SET", "save", "3600 1000000")
    cluster.command("BGSAVE")
    try:
        yield
    finally:
        cluster.command("CONFIG", "SET", "save", "")
        in_the_way.rmdir()


def refuses(refusing: Callable[[Cluster], AbstractContextManager[None]], code: str) -> Nemesis:
    """Return one that lets Redis refuse writes three times."""

    async def refuse(cluster: Cluster) -> None:
        for _ in range(3):
            await pause(cluster, 1, 3)
            with refusing(cluster):
                await pause(cluster, OUTAGE_S / 2, OUTAGE_S * 1.5)
            cluster.counts[f"times {code}"] += 1

    return refuse


async def jump_clock(cluster: Cluster) -> None:
    """Move the clock of Redis forward and back by up to 200 s."""
    for _ in range(6):
        await pause(cluster, 2, 4)
        cluster.losses.append(Loss("jump", 0, time.time() + LEASE_S, None))  # of every lease
        cluster.clocks["redis"].set(cluster.chance.randint(-200, 200))
        cluster.counts["jumps of the clock"] += 1
    await asyncio.sleep(2)


async def wrong_clocks(cluster: Cluster) -> None:
    """Give each worker a clock of its own, hours from that of Redis, and kill workers meanwhile."""
    for _ in range(8):
        await pause(cluster, 1.5, 3)
        for worker in cluster.workers:
            cluster.clocks[worker.name].set(cluster.chance.randint(-20_000, 20_000))
        cluster.counts["clocks moved"] += len(cluster.workers)
        cluster.kill_worker()


BEGUN_CALL = b'"next":["steps/1/call"]'


async def begun_call(cluster: Cluster) -> None:
    """Return as soon as the journal of a refinement says that the call of a tool has begun."""
    async with AsyncRedis.from_url(cluster.redis_url) as client, client.pubsub() as listening:
        await listening.psubscribe(keys.ENTRIES_OF + "*")
        async for message in listening.listen():
            refinement_id = message["channel"].decode().removeprefix(keys.ENTRIES_OF)
            last: Any = await client.xrevrange(keys.JOURNAL + refinement_id, count=1)
            if last and BEGUN_CALL in last[0][1].get(b"data", b""):
                return


async def cut_at_calls(cluster: Cluster) -> None:
    """Cut workers off from Redis just after the call of a tool has begun, eight times for 2 s."""
    loop = asyncio.get_running_loop()
    for name, moved in cluster.clocks.items():
        if name != "redis":
            moved.set(cluster.chance.choice((-1, 1)) * cluster.chance.randint(2_000, 20_000))
    workers = [cluster.proxies[worker.name] for worker in cluster.workers]
    for _ in range(8):
        async with asyncio.timeout(TIMEOUT_S):
            await begun_call(cluster)
        for proxy in workers:
            proxy.is_silent = True
            await loop.run_in_executor(None, proxy.reset)
        await asyncio.sleep(2)
        for proxy in workers:
            proxy.is_silent = False
        cluster.counts["cuts"] += 1
        await pause(cluster, 1, 1.5)  # else several cuts in a row cost a lease


async def restart_in_turn(cluster: Cluster) -> None:
    """Replace each process in turn with SIGTERM, workers and API, twice."""
    for process in [*cluster.processes.values()] * 2:
        await pause(cluster, 1, 2)
        await cluster.replace(process)


async def lose_entries(cluster: Cluster) -> None:
    """Delete what waits in the RQ list, while the workers are stopped for a second."""
    for _ in range(6):
        await pause(cluster, 1.5, 2.5)
        pids = [worker.pid for worker in cluster.workers]
        with cluster.frozen(pids[0]), cluster.frozen(pids[1]):
            await asyncio.sleep(1)
            cluster.lose_queue()


async def deliver_again(cluster: Cluster) -> None:
    """Deliver each running refinement again and again: 100 RQ jobs more, ten times."""
    queue = RefinementQueue(cluster.settings.queue)
    for _ in range(10):
        await pause(cluster, 1, 2)
        with Redis.from_url(cluster.redis_url) as client:
            found = [it.decode() for it in client.zrange(keys.refinement_list("default"), 0, -1)]
            if not found:
                continue
            chosen = cluster.chance.choice(found[-10:])
            for number in range(100):
                with client.pipeline() as pipeline:
                    for command in queue.commands(chosen, f"{chosen}-{10_000 + number}"):
                        pipeline.execute_command(*command)
                    pipeline.execute()
            cluster.counts["jobs delivered again"] += 100


def fails_over(*are_killed: bool) -> Nemesis:
    """Return one that replaces the primary: it is killed, or stays as a replica."""

    async def fail_over(cluster: Cluster) -> None:
        assert isinstance(cluster, ReplicatedCluster)
        group = cluster.group
        loop = asyncio.get_running_loop()
        for is_killed in are_killed:
            await pause(cluster, 3, 5)
            await loop.run_in_executor(None, group.kill_primary if is_killed else group.demote)
            cluster.promoted_at.append(time.monotonic())
            cluster.counts["primaries killed" if is_killed else "primaries demoted"] += 1
            await pause(cluster, 1, 4)
            group.revive()

    return fail_over


async def revive_nodes(cluster: ShardedCluster) -> None:
    """Start the nodes again that are down, and wait until all are one cluster again."""
    cluster.group.revive()
    await asyncio.to_thread(cluster.group.until_settled)


async def kill_owners(cluster: Cluster) -> None:
    """Kill the node of a Redis Cluster that has the keys, 3 times."""
    assert isinstance(cluster, ShardedCluster)
    for _ in range(3):
        await pause(cluster, 3, 5)
        owner = cluster.group.owner
        owner.kill()
        cluster.promoted_at.append(time.monotonic())
        await asyncio.to_thread(cluster.group.until_replaced, owner)
        cluster.counts["primaries killed"] += 1
        await pause(cluster, 1, 3)
        await revive_nodes(cluster)


async def freeze_owners(cluster: Cluster) -> None:
    """Stop the node that has the keys until another one has them, 2 times."""
    assert isinstance(cluster, ShardedCluster)
    for _ in range(2):
        await pause(cluster, 3, 5)
        owner = cluster.group.owner
        assert owner.process is not None
        with cluster.frozen(owner.process.pid):
            await asyncio.to_thread(cluster.group.until_replaced, owner)
            cluster.counts["primaries stopped"] += 1
            await pause(cluster, 2, 4)  # watchers leave it within a second or so
        await revive_nodes(cluster)


async def cut_off_owners(cluster: Cluster) -> None:
    """Cut the node that has the keys off from the others until another one has them, 3 times."""
    assert isinstance(cluster, ShardedCluster)
    for _ in range(3):
        await pause(cluster, 3, 5)
        owner = cluster.group.owner
        with cluster.group.cut_off(owner):
            await asyncio.to_thread(cluster.group.until_replaced, owner)
            cluster.counts["primaries cut off"] += 1
            await pause(cluster, 1, 3)
        await asyncio.to_thread(cluster.group.until_settled)


async def move_slot(cluster: Cluster) -> None:
    """Move the slot of the keys 8 times, each at once."""
    assert isinstance(cluster, ShardedCluster)
    for _ in range(8):
        await pause(cluster, 1, 3)
        await asyncio.to_thread(cluster.group.move_slot, cluster.group.another_primary)
        cluster.counts["moves of the slot"] += 1


async def kill_nodes(cluster: Cluster) -> None:
    """Kill each node of a Redis Cluster in turn; the next one once that one is back."""
    assert isinstance(cluster, ShardedCluster)
    for node in cluster.chance.sample(cluster.group.nodes, len(cluster.group.nodes)):
        await pause(cluster, 1, 3)
        node.kill()
        cluster.counts["nodes killed"] += 1
        await pause(cluster, 1, 5)
        await revive_nodes(cluster)


async def kill_followers(cluster: Cluster) -> None:
    """Kill all replicas of the shard that has the keys, 3 times."""
    assert isinstance(cluster, ShardedCluster)
    for _ in range(3):
        await pause(cluster, 1, 3)
        for replica in cluster.group.replicas_of(cluster.group.owner):
            replica.kill()
            cluster.counts["replicas killed"] += 1
        await pause(cluster, 3, 5)
        await revive_nodes(cluster)


async def one_in_each_cell(cluster: CellsCluster) -> dict[int, str]:
    """Return the id of a refinement in each cell, as soon as there are some."""
    while True:
        with cluster.client() as client:
            listed = client.zrange(keys.refinement_list("default"), 0, -1)
        found = {cell_coded_in(it.decode()): it.decode() for it in listed}
        if len(found) == CELLS:
            return found
        await asyncio.sleep(0.2)


async def probe(cluster: CellsCluster, one_of: Mapping[int, str], gone: int) -> float:
    """Return for how many seconds a refinement of the cell that is `gone` cannot be read.

    Those of the other cells must be readable all the time, and requests be estimated.
    """
    began = time.monotonic()
    async with aiohttp.ClientSession() as session:
        while True:
            for cell, refinement_id in one_of.items():
                url = f"{cluster.url}/v1/refinements/{refinement_id}"
                async with session.get(url) as response:
                    if cell == gone and response.status == 200:
                        return time.monotonic() - began
                    if cell != gone and response.status != 200:
                        cluster.broken.append(f"{refinement_id}: {await response.text()}")
            asked = {"task": "Say it.", "draft": "It is said."}
            async with session.post(f"{cluster.url}/v1/estimates", json=asked) as response:
                if response.status != 200:
                    cluster.broken.append(f"an estimate: {await response.text()}")
            if time.monotonic() - began > TIMEOUT_S:
                cluster.broken.append(f"cell {gone} did not come back")
                return TIMEOUT_S
            await asyncio.sleep(0.05)


def kills_cell(number: int, times: int = 3) -> Nemesis:
    """Return one that kills the primary of a cell; it is to be back within 5 s each time."""

    async def kill(cluster: Cluster) -> None:
        assert isinstance(cluster, CellsCluster)
        group = cluster.group.of_cell(number)
        for _ in range(times):
            await pause(cluster, 3, 5)
            known = await one_in_each_cell(cluster)
            group.owner.kill()
            back_s = await probe(cluster, known, number)
            cluster.counts["primaries killed"] += 1
            if back_s > BACK_GOAL_S:
                cluster.broken.append(f"cell {number} was away for {back_s:.1f} s")
            await pause(cluster, 1, 2)
            group.revive()
            await asyncio.to_thread(group.until_settled)

    return kill


async def move_cell(cluster: Cluster) -> None:
    """Move the slot of one of three cells 6 times, each at once."""
    assert isinstance(cluster, CellsCluster)
    for turn in range(6):
        await pause(cluster, 1, 3)
        group = cluster.group.of_cell(turn % CELLS)
        await asyncio.to_thread(group.move_slot, group.another_primary)
        cluster.counts["moves of slots"] += 1


async def change_cells(cluster: Cluster) -> None:
    """Add a cell and drain another one, and then the other way round."""
    assert isinstance(cluster, CellsCluster)
    async with open_cells(cluster.settings, RefinementQueue(cluster.settings.queue)) as cells:
        for added, drained in ((2, 1), (1, 2)):
            await pause(cluster, 2, 4)
            await cells.add(added)
            cluster.counts["cells added"] += 1
            await pause(cluster, 6, 8)
            await cells.drain(drained)
            cluster.counts["cells drained"] += 1
            await pause(cluster, 6, 8)


async def crowd(cluster: Cluster) -> None:
    """Queue 3,000 refinements of another tenant, and delete them when the clients have submitted.

    Their calls are none of the run's.
    """
    settings = cluster.settings.model_copy(update={"redis_url": cluster.redis_url})
    async with open_store(settings, RefinementQueue(settings.queue)) as store:
        ids: list[str] = []
        while len(ids) < CROWD:
            some = [store.create(_of_the_crowd(), None) for _ in range(50)]
            ids += [it.id for it in await asyncio.gather(*some)]
        await asyncio.sleep(CROWD_S)
        queued = cluster.command("ZCARD", keys.listed_by_status(OTHER_TENANT, Status.QUEUED))
        cluster.counts["of the other tenant begun"] = CROWD - queued
        for some_ids in (ids[it : it + 50] for it in range(0, len(ids), 50)):
            await asyncio.gather(*(store.erase(OTHER_TENANT, it) for it in some_ids))
    own = set(ids)
    cluster.calls[:] = [it for it in cluster.calls if it.refinement_id not in own]


def _of_the_crowd() -> NewRefinement:
    model = ModelChoice(model="openai:test", max_output_tokens=100)
    request = RefinementRequest(task="Explain refunds.", threshold=1.0, max_iterations=4)
    return NewRefinement(
        tenant=OTHER_TENANT,
        request=request,
        body_sha256="0" * 64,
        models={"generator": model, "critic": model},
        limits=request.limits(),
        queued=Queued(
            strategy=request.strategy.kind,
            models={"generator": model.model, "critic": model.model},
            limits=request.limits(),
            request_sha256="0" * 64,
        ),
    )


async def until_archived(cluster: Cluster, count: int) -> None:
    """Return once so many refinements are archived."""
    async with asyncio.timeout(TIMEOUT_S):
        while cluster.stubs() < count:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def kill_archiving(cluster: Cluster) -> None:
    """Kill all workers as soon as an object is written, 12 times."""
    known = set(cluster.objects())
    for _ in range(12):
        async with asyncio.timeout(TIMEOUT_S):
            while not (written := set(cluster.objects()) - known):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        cluster.kill_workers()
        ids = {path.parts[-2] for path in written}
        has_stub = [cluster.command("HEXISTS", keys.SUMMARY + it, "stub") for it in ids]
        cluster.counts["kills between an object and its stub"] += not all(has_stub)
        known = set(cluster.objects())
        await pause(cluster, 0.5, 1.5)


async def lose_archive(cluster: Cluster) -> None:
    """Let a file be in the place of the archive's directory, three times for 3 to 6 s."""
    away = cluster.archive.with_name("away")
    for _ in range(3):
        await until_archived(cluster, cluster.stubs() + 1)
        cluster.archive.rename(away)
        cluster.archive.write_text("a file")
        await pause(cluster, 3, 6)
        cluster.archive.unlink()
        away.rename(cluster.archive)
        cluster.counts["times the archive was away"] += 1


def loses_redis(count: int) -> Nemesis:
    """Return one that takes Redis away once `count` refinements are archived, which are all.

    An older copy takes its place, then an empty one, which is another service in the same directory
    first. What is archived is restored each time. No object may change or go. Whoever watches has
    seen the end before: what an empty Redis answers is not the question here.
    """

    async def lose(cluster: Cluster) -> None:
        await until_archived(cluster, count // 2)
        copy = {it: cluster.command("DUMP", it) for it in cluster.command("KEYS", "*")}
        await until_archived(cluster, count)
        async with asyncio.timeout(TIMEOUT_S):
            while not all(it.has_seen_end for it in cluster.watched):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        await _replace_redis(cluster, copy)

    return lose


async def _replace_redis(cluster: Cluster, copy: Mapping[bytes, bytes]) -> None:
    for worker in cluster.workers:
        worker.is_wanted = False
        worker.send(signal.SIGKILL)
        worker.wait()
    before = cluster.objects()
    installation = cluster.command("HGET", keys.ARCHIVE, "installation").decode()
    cluster.command("FLUSHALL")
    for name, value in copy.items():
        if value is not None:  # it has expired meanwhile
            cluster.command("RESTORE", name, 0, value)
    await _restore(cluster, "")
    cluster.counts["older copies"] += 1
    cluster.command("FLUSHALL")
    await _restore_beside_another(cluster, installation)
    if lost := [str(it) for it, content in before.items() if cluster.objects().get(it) != content]:
        cluster.broken.append(f"objects were lost: {lost}")
    cluster.counts["objects kept"] += len(before)


async def _restore(cluster: Cluster, installation: str) -> int:
    settings = cluster.settings.model_copy(update={"redis_url": cluster.redis_url})
    async with open_store(settings, RefinementQueue(settings.queue)) as store:
        restored = await (await Cells([store]).archive_check()).restore(installation)
        found = await store.archive_check.compare()
        await store.archive_check.delete(found)
    if found.unnamed or found.missing:
        cluster.broken.append(f"after a restore: {found.unnamed}, {found.missing}")
    return restored


async def _restore_beside_another(cluster: Cluster, installation: str) -> None:
    """Let an empty Redis be another service first, and read the objects of this one after all."""
    settings = cluster.settings.model_copy(update={"redis_url": cluster.redis_url})
    async with open_worker_store(settings, RefinementQueue(settings.queue), "another") as worker:
        assert worker.transfer
        await worker.transfer.move_due()
    restored = await _restore(cluster, installation)
    cluster.counts["copied from another installation"] += restored


async def endure_poison(cluster: Cluster) -> None:
    """Do nothing: the refinements do harm, and any call may be in the hands of one that dies."""
    await asyncio.sleep(1)
    cluster.losses.append(Loss("poison", 0, float("inf"), None))


async def mix_releases(cluster: Cluster) -> None:
    """Upgrade one process after the other, roll one back, upgrade it again; kill beside it."""
    later = cluster.later_release()
    first, second = cluster.workers
    changes = ((second, later), (cluster.processes["api"], later), (first, later))
    for process, release in (*changes, (second, None), (first, None), (second, later)):
        await pause(cluster, 2, 3)
        process.release = release
        await cluster.replace(process)
        cluster.counts["upgrades" if release else "rollbacks"] += 1
        await pause(cluster, 1, 2)
        cluster.kill_worker()
