"""The whole service as processes of its own, kept running, and what a fault may do to them."""

import asyncio
import json
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, Generic, Self, TypeVar
from urllib.parse import unquote, urlsplit

import aiohttp
import psutil  # type: ignore[import-untyped]
from redis import Redis
from redis.exceptions import RedisError

from app.cli.processes import environment_of, url_of
from app.local.embedded import EmbeddedRedis, RedisHome, find_redis
from app.queue import RefinementQueue
from app.settings import Settings
from app.store import open_store
from app.store.redis import keys
from app.store.state import cell_coded_in
from benchmarks.model_server import RecordedCall
from tests.faults.checker import SEEN_LATE_S, journal_violations
from tests.faults.clients import OTHER_PATH, OTHER_PROVIDER
from tests.faults.clock import MovableClock
from tests.faults.history import Loss, Watched, stored
from tests.faults.processes import (
    SECRET_KEY,
    TOOL_PATH,
    KeptProcess,
    ModelServerThread,
    model_server,
)
from tests.faults.tcp_proxy import TcpProxy, tcp_proxy
from tests.ports import reserved_port
from tests.redis_cluster import RedisCluster, redis_cluster
from tests.waiting import TIMEOUT_S

LEASE_S = 5.0
GRACE_S = 5.0
KEEP_EVERY_S = 0.05
ENDING_S = 0.1
"""Seconds for a signal to reach the descendants of a killed process."""
NODE_TIMEOUT_MS = 2_000  # as docs/operations.md advises
CELLS = 3
ARCHIVE = "archive"
ENDED = {"succeeded", "failed", "canceled"}


class Cluster:
    """A running service, what a fault may do to it, and a count of what was done.

    Redis can be `None` while another process keeps it (`hone serve`).
    """

    def __init__(
        self,
        settings: Settings,
        redis: EmbeddedRedis | None,
        redis_url: str,
        models: ModelServerThread,
        chance: Random,
        directory: Path,
    ) -> None:
        self.settings = settings
        self.chance = chance
        self.models = models
        self._redis_url = redis_url
        self.directory = directory
        self.processes: dict[str, KeptProcess] = {}
        self.proxies: dict[str, TcpProxy] = {}
        self.clocks: dict[str, MovableClock] = {}
        self.losses: list[Loss] = []
        self.unmanned: list[tuple[float, float]] = []
        """From when to when no worker took work."""
        self.counts: Counter[str] = Counter()
        self.broken: list[str] = []
        self.release: Path | None = None
        self.lost_entries: dict[str, float] = {}
        self.left_in_s: list[float] = []
        self.promoted_at: list[float] = []
        """When a new primary answered, by the monotonic clock."""
        self.watched: Sequence[Watched] = ()
        """What the watchers of the run have seen."""
        self._redis = redis
        self.cell0: EmbeddedRedis | None = None

    @property
    def redis(self) -> EmbeddedRedis:
        """The Redis that this process started."""
        assert self._redis is not None
        return self._redis

    @property
    def redis_url(self) -> str:
        """The URL of Redis itself, past any proxy."""
        return self._redis_url

    @property
    def url(self) -> str:
        """Where the API listens."""
        return url_of(self.settings)

    @property
    def endpoint(self) -> dict[str, str]:
        """The endpoint that is called by tools and told by webhooks."""
        return {"url": f"http://127.0.0.1:{self.models.port}{TOOL_PATH}"}

    @property
    def calls(self) -> list[RecordedCall]:
        """Every call that the model server has seen."""
        assert self.models.record is not None
        return self.models.record

    def run(self, name: str, *module: str, environment: Mapping[str, str] | None = None) -> None:
        """Start a process and keep it running; it reaches Redis through its proxy, if any."""
        settings = self.settings
        if name in self.proxies:
            settings = settings.model_copy(update={"redis_url": self.proxies[name].url})
        env = {**os.environ, **environment_of(settings), **(environment or {})}
        log = self.directory / f"{name}.log"
        self.processes[name] = KeptProcess(name, module, env, log, self.release)

    def later_release(self) -> Path:
        """Make a later release and return its directory."""
        module = import_module("tests.faults.later_version")
        made: Path = module.later_version(self.directory / "later")
        return made

    @property
    def workers(self) -> list[KeptProcess]:
        """The workers, running or about to be."""
        return [it for name, it in self.processes.items() if name.startswith("worker")]

    async def keep(self) -> None:
        """Start what has ended by itself again, and note when no worker runs, until cancelled."""
        manned_at = time.time()
        while True:
            now = time.time()
            if any(it.takes_work for it in self.workers):
                manned_at = now
            elif self.unmanned and self.unmanned[-1][0] == manned_at:
                self.unmanned[-1] = (manned_at, now)
            else:
                self.unmanned.append((manned_at, now))
            for process in self.processes.values():
                if process.is_wanted and not process.is_running:
                    self.counts["ended by themselves"] += 1
                    process.start()
            await asyncio.sleep(KEEP_EVERY_S)

    def ports(self, pid: int) -> frozenset[int]:
        """Return the ends of connections to the model server of a process and its children."""
        ports: set[int] = set()
        for each in _tree(pid):
            with suppress(psutil.Error):
                opened = each.net_connections("tcp4")
                ports |= {
                    it.laddr.port for it in opened if it.raddr and it.raddr.port == self.models.port
                }
        return frozenset(ports)

    def kill(self, process: KeptProcess) -> None:
        """Kill a process at once and start it again, as a supervisor would."""
        is_worker = process.name.startswith("worker")
        with _stopped(process.pid):
            if is_worker:
                now = time.time()
                self.losses.append(Loss("kill", now, now + SEEN_LATE_S, self.ports(process.pid)))
            process.send(signal.SIGKILL)
            process.wait()
        process.start()
        self.counts["workers killed" if is_worker else "kills of the API"] += 1

    def kill_worker(self) -> None:
        """Kill one of the workers."""
        self.kill(self.chance.choice(self.workers))

    def kill_workers(self) -> None:
        """Kill all workers at once."""
        for worker in self.workers:
            worker.send(signal.SIGSTOP)
        for worker in self.workers:
            self.kill(worker)

    def kill_api(self) -> None:
        """Kill the API."""
        self.kill(self.processes["api"])

    @asynccontextmanager
    async def without_cell0(self, *, is_killed: bool) -> AsyncIterator[None]:
        """Kill the Redis of cell 0, or keep it from running, until the end of the block."""
        assert self.cell0 is not None
        if not is_killed:
            with self.frozen(self.cell0.pid):
                yield
            return
        os.kill(self.cell0.pid, signal.SIGKILL)
        try:
            yield
        finally:
            self.cell0.revive()

    def kill_redis(self) -> None:
        """Kill Redis and start it on the same data."""
        os.kill(self.redis.pid, signal.SIGKILL)
        while self.redis.is_running:
            time.sleep(0.005)
        self.redis.revive()
        self.counts["kills of Redis"] += 1

    async def replace(self, process: KeptProcess) -> None:
        """Ask a process to end, wait until it has, and start its successor."""
        process.is_wanted = False
        began = time.monotonic()
        process.send(signal.SIGTERM)
        while process.is_running and time.monotonic() < began + 2 * GRACE_S:  # noqa: ASYNC110
            await asyncio.sleep(KEEP_EVERY_S)
        if process.is_running:
            self.broken.append(f"{process.name} stayed {2 * GRACE_S:g} s after SIGTERM")
            process.send(signal.SIGKILL)
            process.wait()
        self.left_in_s.append(time.monotonic() - began)
        self.counts["replaced with SIGTERM"] += 1
        process.start()
        process.is_wanted = True

    @property
    def archive(self) -> Path:
        """The directory of the archive."""
        return self.directory / ARCHIVE

    def objects(self) -> dict[Path, bytes]:
        """Return the objects of archived records, by their paths."""
        return {it: it.read_bytes() for it in self.archive.glob("*/*/*/*") if "#" not in it.name}

    def stubs(self) -> int:
        """Return how many refinements are archived."""
        ids = self.command("ZRANGE", keys.refinement_list("default"), 0, -1)
        return sum(self.command("HEXISTS", keys.SUMMARY + it.decode(), "stub") for it in ids)

    async def bring_back(self, ids: list[str]) -> None:
        """End all processes, and write every archived record into Redis again."""
        self.end()
        there = self.settings.model_copy(update={"redis_url": self.redis_url})
        async with open_store(there, RefinementQueue(there.queue)) as store:
            for it in ids:
                await store.bring_back("default", it)

    def lose_queue(self) -> None:
        """Delete everything that waits in the RQ list."""
        queue = f"rq:queue:{self.settings.queue}"
        waiting = self.command("LRANGE", queue, 0, -1)
        self.command("DEL", queue)
        now = time.time()
        self.lost_entries |= {it.decode().rpartition("-")[0]: now for it in waiting}
        self.counts["queue entries lost"] += len(waiting)

    @asynccontextmanager
    async def detached(self, worker: KeptProcess, kind: str) -> AsyncIterator[None]:
        """Note that a worker may lose what it has in hand from now until the end of the block."""
        began, ports = time.time(), self.ports(worker.pid)
        try:
            yield
        finally:
            ports |= self.ports(worker.pid)
            self.losses.append(Loss(kind, began, time.time(), ports))

    @contextmanager
    def frozen(self, pid: int) -> Iterator[None]:
        """Keep a process from running."""
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def client(self) -> Redis:
        """Return a client of Redis itself, for the caller to close."""
        return Redis.from_url(self.redis_url, socket_timeout=5)

    def command(self, *words: object) -> Any:
        """Send one command to Redis itself."""
        with self.client() as client:
            return client.execute_command(*words)

    def unfinished(self, ids: list[str]) -> list[str]:
        """Return the ids that have not ended; all of them while Redis is away."""
        try:
            with self.client() as client:
                found: Any = [client.hget(keys.SUMMARY + it, "status") for it in ids]
        except RedisError:
            return ids
        return [it for it, status in zip(ids, found, strict=True) if _text(status) not in ENDED]

    def end(self) -> None:
        """Kill everything that was started but Redis; nothing stays behind."""
        started = []
        for process in self.processes.values():
            process.is_wanted = False
            started += _tree(process.pid)[1:]
            process.send(signal.SIGKILL)
            process.wait()
        for child in started:
            with suppress(psutil.Error):
                child.kill()
        psutil.wait_procs(started, timeout=10)

    def logs(self) -> str:
        """Return the end of each process's log."""
        return "\n".join(
            f"== {log.name}\n{log.read_text(errors='replace')[-2000:]}"
            for log in sorted(self.directory.glob("*.log"))
        )


class ServedCluster(Cluster):
    """The same as `hone serve` runs it: its own supervisor restarts what is killed."""

    @property
    def workers(self) -> list[Any]:
        """The workers among the processes that `hone serve` has started."""
        return [_Foreign("worker", it) for it in self._children() if "workers" in it.cmdline()]

    def _children(self) -> list[psutil.Process]:
        with suppress(psutil.Error):
            return [*psutil.Process(self.processes["serve"].pid).children()]
        return []

    def kill(self, process: Any) -> None:
        """Kill a process at once; `hone serve` starts it again."""
        with suppress(psutil.Error), _stopped(process.pid):
            now = time.time()
            self.losses.append(Loss("kill", now, now + SEEN_LATE_S, self.ports(process.pid)))
            process.send(signal.SIGKILL)
            self.counts["workers killed"] += 1

    def kill_worker(self) -> None:
        """Kill one of the workers, if one runs."""
        if workers := self.workers:
            self.kill(self.chance.choice(workers))


Group = TypeVar("Group")


class GroupCluster(Cluster, Generic[Group]):
    """The same with a group of Redis servers that runs already."""

    def __init__(
        self,
        group: Group,
        settings: Settings,
        models: ModelServerThread,
        chance: Random,
        directory: Path,
    ) -> None:
        self.group = group
        super().__init__(settings, None, "", models, chance, directory)


class ReplicatedCluster(GroupCluster[Any]):
    """The same with replicas of Redis, one of which Sentinel promotes when the primary fails."""

    @property
    def redis_url(self) -> str:
        """The URL of the present primary."""
        return f"redis://127.0.0.1:{self.group.primary.port}"


class ShardedCluster(GroupCluster[RedisCluster]):
    """The same in a Redis Cluster, whose nodes are the group."""

    def client(self) -> Redis:
        """Return a client of the node that has all keys, for the caller to close."""
        return self.group.client()


class CellsCluster(ShardedCluster):
    """The same with three cells, each on a node of its own."""

    def client(self) -> Any:
        """Return what reads refinements in the cell of their id."""
        return _EveryCell([self.group.of_cell(n) for n in range(self.settings.cells)])

    def command(self, *words: object) -> Any:
        """Send one command to cell 0."""
        with self.group.client() as client:
            return client.execute_command(*words)

    def open(self, cells: Sequence[int]) -> None:
        """Give ids the numbers of their cells, and let submissions go to these from the start."""
        for cell in cells:
            self.command("HSET", keys.CELLS, cell, json.dumps({"since": 0, "until": None}))
        self.command("SET", keys.FORMAT, keys.FIRST_RELEASE)
        self.command("HSET", keys.CELLS, "coded_since", 0)


class _EveryCell:
    """Reads a key of a refinement in its cell, and lists of all."""

    def __init__(self, groups: Sequence[RedisCluster]) -> None:
        self._clients = [it.client() for it in groups]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.close()

    def zrange(self, name: str, first: int, last: int) -> list[bytes]:
        """Return what all cells have in a sorted set."""
        found: list[Any] = [client.zrange(name, first, last) for client in self._clients]
        return sorted(it for each in found for it in each)

    def __getattr__(self, command: str) -> Any:
        return lambda name, *words: getattr(self._clients[cell_coded_in(name)], command)(
            name, *words
        )


class _Foreign:
    """A process that another one started."""

    takes_work = True

    def __init__(self, name: str, process: psutil.Process) -> None:
        self.name = name
        self.pid = process.pid
        self.send = process.send_signal


def _tree(pid: int) -> list[psutil.Process]:
    """Return a process and its descendants; nothing if it has ended."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    """Keep a process and its descendants from running, so that they open no connections.

    If the process is killed meanwhile, those that do not end with it go on.
    """
    stopped: list[psutil.Process] = []
    while more := [it for it in _tree(pid) if it not in stopped]:  # one may be just starting
        for each in more:
            with suppress(psutil.Error):
                each.suspend()
        stopped += more
    try:
        yield
    finally:
        _, left = psutil.wait_procs(stopped, ENDING_S)
        for each in left:
            with suppress(psutil.Error):
                each.resume()


def broken_journals(client: Redis, refinement_id: str) -> Iterator[str]:
    """Return what is broken in one stored refinement."""
    return journal_violations(stored(client, [refinement_id])[refinement_id])


def _text(value: bytes | None) -> str:
    return value.decode() if value else "lost"


@dataclass(frozen=True)
class ClusterSetup:
    """How the service of a row is run."""

    workers: int = 2
    worker_module: str = "workers"
    latency_s: tuple[float, float] = (0.2, 0.8)
    """Shortest and longest latency of the model."""
    is_proxied: bool = False
    """Every process reaches Redis through a proxy of its own."""
    is_served: bool = False
    """`hone serve` runs everything."""
    is_replicated: bool = False
    """Redis has replicas and Sentinels."""
    is_sharded: bool = False
    """Redis is a Redis Cluster."""
    cells: Sequence[int] = ()
    """Cells beside cell 0 that take submissions from the start; of a Redis Cluster with three."""
    is_later: bool = False
    """Every process is of the later release that is made for the row of two releases."""
    sends_webhooks: bool = False
    """A process sends webhooks."""
    moves_clocks: bool = False
    """Each process has a clock of its own."""
    archives: bool = False
    """What has ended goes to an archive as soon as it is packed, which is at once."""
    is_apart: bool = False
    """The service is cell 1; cell 0 is a Redis of its own."""
    settings: Mapping[str, Any] = field(default_factory=dict)


def archive_of(directory: Path) -> dict[str, Any]:
    """Return the settings of an archive in a directory of a cluster."""
    return {
        "archive_url": f"file://{directory / ARCHIVE}",
        "archive_after_s": 0,
        "pack_after_s": 0,
    }


def of_cell_1(cluster: Cluster) -> Mapping[str, str]:
    """Return the settings of a worker of cell 1."""
    assert cluster.cell0 is not None
    settings = cluster.settings.model_copy(
        update={
            "redis_url": cluster.cell0.url,
            "cells": 2,
            "cells_url": cluster.redis_url,
            "cell": 1,
        }
    )
    return environment_of(settings)


@asynccontextmanager
async def running_cluster(
    directory: Path, seed: int, setup: ClusterSetup
) -> AsyncIterator[Cluster]:
    """Run Redis with its AOF, an API, workers and a model; leave nothing running."""
    with ExitStack() as stack:
        models = stack.enter_context(model_server(*setup.latency_s))
        other = {"base_url": f"http://127.0.0.1:{models.port}{OTHER_PATH}/v1"}
        special: dict[str, Any] = {
            "openai_base_url": models.url,
            "providers": {OTHER_PROVIDER: other},
            "secret_key": SECRET_KEY,
            "outbound_allow": f"127.0.0.1:{models.port}",
            "pack_after_s": 1,
            **(archive_of(directory) if setup.archives else {}),
            **setup.settings,
        }
        settings = Settings(
            port=stack.enter_context(reserved_port()),
            data_dir=directory / "data",
            model="openai:test",
            workers=1,
            lease_s=LEASE_S,
            grace_s=GRACE_S,
            **special,
        )
        chance = Random(seed)
        if setup.is_served:
            url = f"unix://{RedisHome(settings.data_dir).socket}"
            cluster: Cluster = ServedCluster(settings, None, url, models, chance, directory)
        elif setup.is_sharded:
            nodes = redis_cluster(
                directory / "nodes",
                *("--appendonly", "yes"),
                node_timeout_ms=NODE_TIMEOUT_MS,
                can_be_cut=setup.is_proxied,
            )
            group = stack.enter_context(nodes)
            settings = settings.model_copy(update={"redis_url": group.url})
            its = (group, settings, models, chance, directory)
            cluster = _with_cells(setup, *its) if setup.cells else ShardedCluster(*its)
        elif setup.is_replicated:
            cluster = _with_replicas(directory, stack, settings, models, chance)
        else:
            cluster = _with_redis(directory, setup, stack, settings, models, chance)
        stack.callback(cluster.end)
        _start(cluster, setup)
        await _is_ready(cluster, 1 if setup.is_served else setup.workers)
        keeping = asyncio.create_task(cluster.keep())
        try:
            yield cluster
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])


def _with_redis(
    directory: Path,
    setup: ClusterSetup,
    stack: ExitStack,
    settings: Settings,
    models: ModelServerThread,
    chance: Random,
) -> Cluster:
    binary, clock = find_redis(), None
    if setup.moves_clocks:
        clock = MovableClock(directory, "redis")
        binary = clock.wrapped(binary)
    redis = stack.enter_context(EmbeddedRedis(settings.data_dir, binary=binary))
    settings = settings.model_copy(update={"redis_url": redis.url})
    cluster = Cluster(settings, redis, redis.url, models, chance, directory)
    if clock:
        cluster.clocks["redis"] = clock
    if setup.is_apart:
        cluster.cell0 = stack.enter_context(EmbeddedRedis(directory / "cell0", binary=binary))
    if setup.is_proxied:
        socket = unquote(urlsplit(redis.url).path)
        for name in ("api", *_worker_names(setup), *(["sender"] if setup.sends_webhooks else [])):
            cluster.proxies[name] = stack.enter_context(tcp_proxy(socket))
    return cluster


def _with_cells(
    setup: ClusterSetup,
    group: RedisCluster,
    settings: Settings,
    models: ModelServerThread,
    chance: Random,
    directory: Path,
) -> Cluster:
    for cell in range(CELLS):
        of_cell = group.of_cell(cell)
        if of_cell.owner is not group.nodes[cell]:
            of_cell.move_slot(group.nodes[cell])
    several = settings.model_copy(update={"cells": CELLS})
    cluster = CellsCluster(group, several, models, chance, directory)
    cluster.open(setup.cells)
    return cluster


def _with_replicas(
    directory: Path,
    stack: ExitStack,
    settings: Settings,
    models: ModelServerThread,
    chance: Random,
) -> Cluster:
    sentinel = import_module("tests.faults.sentinel")
    options = ("--min-replicas-to-write", "1")
    group = stack.enter_context(sentinel.sentinel_cluster(directory / "servers", options=options))
    settings = settings.model_copy(update={"redis_url": group.url})
    return ReplicatedCluster(group, settings, models, chance, directory)


def _worker_names(setup: ClusterSetup) -> list[str]:
    return [f"worker-{number}" for number in range(1, setup.workers + 1)]


def _start(cluster: Cluster, setup: ClusterSetup) -> None:
    if setup.is_later:
        cluster.release = cluster.later_release()
    if setup.is_served:
        cluster.run("serve", "app.cli", "serve")
        return
    cluster.run("api", "app.cli", "api")
    modules = dict.fromkeys(_worker_names(setup), setup.worker_module)
    if setup.sends_webhooks:
        modules["sender"] = "workers.webhooks"
    for number, (name, module) in enumerate(modules.items()):
        environment = {**of_cell_1(cluster)} if setup.is_apart else {}
        if setup.cells and name != "sender":
            environment["HONE_CELL"] = str(number % CELLS)
        if setup.moves_clocks:
            cluster.clocks[name] = MovableClock(cluster.directory, name)
            environment |= cluster.clocks[name].environment
        cluster.run(name, module, environment=environment)


async def _is_ready(cluster: Cluster, workers: int) -> None:
    async with asyncio.timeout(TIMEOUT_S), aiohttp.ClientSession() as session:
        while True:
            with suppress(aiohttp.ClientError):
                async with session.get(f"{cluster.url}/readyz") as response:
                    ready = await response.json()
                    if ready.get("workers", 0) >= workers:
                        return
            broken = [name for name, it in cluster.processes.items() if not it.is_running]
            assert not broken, cluster.logs()
            await asyncio.sleep(0.1)
