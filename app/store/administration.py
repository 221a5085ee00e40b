"""What an operator asks of the Redis of a service: how it is set up, who works, and at what."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from app.contract.errors import HoneError
from app.contract.values import value
from app.store.archive_transfer import AGAIN_MS
from app.store.creation import ServerStatus
from app.store.rate_limits import StoredLimit, parked_by_model, stored_limits
from app.store.redis import keys
from app.store.redis.codec import moment
from app.store.redis.committer import Committer, redis_time_ms, replies_in_order
from app.store.redis.connection import refusing
from app.store.redis.keys import PLAIN, SHARDED
from app.store.redis.scripts import COMMANDS, FULL, REWRITTEN
from app.store.webhooks import WebhookStore


@value(slots=True)
class WorkerFacts:
    """A worker whose lease has not expired; empty texts for what it has not registered."""

    name: str
    release: str
    python: str
    host: str
    pid: str
    holds: int
    """The refinements that it holds, queued ones not counted."""


@value(slots=True)
class ArchiveFacts:
    """What workers last found of the archive; `due` records are to go to it now."""

    installation: str
    """Empty as long as nothing was archived."""
    failing_since: datetime | None
    error: str
    due: int

    @property
    def text(self) -> str:
        """What an operator should know, if anything."""
        if self.failing_since is None:
            return ""
        since = self.failing_since.strftime("%Y-%m-%dT%H:%M:%SZ")
        return f"the archive fails since {since}: {self.error}; {self.due} records wait"


@value(slots=True)
class ServerFacts:
    """The Redis of a service.

    `info` is what INFO answers; `ahead_s` is how far its clock is ahead of this machine's;
    `fsync` is its `appendfsync`, empty if this client may not ask for it; `missing` are commands
    that Hone needs and this Redis does not have. Of a cluster, `nodes` are the lines of CLUSTER
    NODES, `slot` has all keys, and `full_coverage` is its setting, empty if unknown.
    """

    info: Mapping[str, Any]
    ahead_s: float
    fsync: str
    missing: tuple[str, ...]
    moves_slots_at_once: bool
    nodes: tuple[str, ...]
    slot: int
    full_coverage: str
    workers: tuple[WorkerFacts, ...]
    unplayable: tuple[str, ...]


OUTSIDE_SCRIPTS = frozenset({"BLMOVE", "CLIENT", "EVAL", "EVALSHA", "INCR", "LREM", "SCAN", "WAIT"})
"""Commands, which a managed Redis may lack, that Hone sends otherwise."""
AT_ONCE = ("cluster|migrateslots", "cluster|migration")
"""Valkey 9 and Redis 8.4 move a slot by one of these."""


async def inspect(committer: Committer, worker_key: Callable[[str], str]) -> ServerFacts:
    """Return how the Redis of a service is set up, and its workers by `worker_key`, RQ's key."""
    sent_at = time.time()
    seconds, microseconds = await committer.execute("TIME")
    halfway = (sent_at + time.time()) / 2
    now = seconds + microseconds / 1e6
    names = await committer.execute("ZRANGEBYSCORE", keys.WORKERS, now * 1000, "+inf")
    sharded = () if committer.layout is PLAIN else SHARDED.values()
    return ServerFacts(
        info=await committer.execute("INFO"),
        ahead_s=now - halfway,
        fsync=await _setting(committer, "appendfsync"),
        missing=await _missing(committer, {*COMMANDS, *OUTSIDE_SCRIPTS, *sharded}),
        moves_slots_at_once=len(await _missing(committer, AT_ONCE)) < len(AT_ONCE),
        nodes=await _nodes(committer),
        slot=committer.layout.slot,
        full_coverage=await _setting(committer, "cluster-require-full-coverage"),
        workers=tuple(
            await asyncio.gather(*(_worker(committer, name.decode(), worker_key) for name in names))
        ),
        unplayable=await unplayable(committer),
    )


async def unplayable(committer: Committer) -> tuple[str, ...]:
    """Return the versions that refinements were put back for lately and no running worker plays."""
    now = await redis_time_ms(committer)
    lacking, played = await replies_in_order(
        committer.execute("ZRANGEBYSCORE", keys.UNPLAYABLE, now, "+inf"),
        committer.execute("ZRANGEBYSCORE", keys.PLAYABLE, now, "+inf"),
    )
    return tuple(sorted(version.decode() for version in {*lacking} - {*played}))


async def workload(committer: Committer) -> dict[str, float]:
    """Return how many workers there are, and how many refinements they hold or a model parks."""
    now = await redis_time_ms(committer)
    names = await committer.execute("ZRANGEBYSCORE", keys.WORKERS, now, "+inf")
    counts = await asyncio.gather(
        *(committer.execute("SCARD", keys.HELD + name.decode()) for name in names),
    )
    return {
        "held": sum(counts),
        "parked": sum((await parked_by_model(committer)).values()),
        "workers": len(names),
    }


async def _worker(committer: Committer, name: str, worker_key: Callable[[str], str]) -> WorkerFacts:
    fields = ("hone_release", "python_version", "hostname", "pid")
    values, holds = await asyncio.gather(
        committer.execute("HMGET", worker_key(name), *fields),
        committer.execute("SCARD", keys.HELD + name),
    )
    release, python, host, pid = (text.decode() if text else "" for text in values)
    return WorkerFacts(name, release, python, host, pid, holds)


async def _missing(committer: Committer, names: Iterable[str]) -> tuple[str, ...]:
    """Return which of these commands Redis does not have; none if this client may not ask."""
    asked = sorted(names)
    try:
        # In small letters, since redis-py's decoder fails for commands that are not there.
        found = await committer.execute("command", "INFO", *asked)
    except ResponseError:
        return ()
    return tuple(name for name, known in zip(asked, found, strict=True) if not known)


async def _nodes(committer: Committer) -> tuple[str, ...]:
    if committer.layout is PLAIN:
        return ()
    try:
        return tuple((await committer.execute("CLUSTER", "NODES")).decode().splitlines())
    except ResponseError:
        return ()


async def _setting(committer: Committer, name: str) -> str:
    try:
        found = await committer.execute("CONFIG", "GET", name)
    except ResponseError:  # a managed Redis, or an ACL, may refuse it
        return ""
    words = list(found.values() if isinstance(found, dict) else found)
    last = words[-1] if words else b""
    return last.decode() if isinstance(last, bytes) else str(last)


class Administration:
    """What an operator asks of a service. Every method raises Unavailable."""

    def __init__(self, committer: Committer, server: ServerStatus, webhooks: WebhookStore) -> None:
        self._committer = committer
        self._server = server
        self._webhooks = webhooks

    @refusing
    async def workers(self) -> int:
        """Return the number of workers with a heartbeat within their lease.

        Raises Unavailable also when Redis refuses writes, since no work is possible then.
        """
        # It is missing the next time, so that a cluster which is moving the slot refuses it.
        await self._committer.execute("SET", keys.PROBE, 1, "PX", 1)
        now = await redis_time_ms(self._committer)
        return int(await self._committer.execute("ZCOUNT", keys.WORKERS, now, "+inf"))

    async def refusal(self) -> str:
        """Return why no work is possible in this Redis now; nothing if it is."""
        try:
            await self.workers()
        except HoneError as refused:
            return str(refused)
        return ""

    @refusing
    async def inspect(self, worker_key: Callable[[str], str]) -> ServerFacts:
        """Return how this Redis is set up, and the workers, which RQ has under `worker_key`."""
        return await inspect(self._committer, worker_key)

    @refusing
    async def waiting(self) -> int:
        """Return how many refinements of all tenants wait for a worker."""
        return int(await self._committer.execute("ZCARD", keys.WAITING))

    @refusing
    async def standing(self) -> Mapping[str, float]:
        """Return how many refinements, webhooks and workers stand in Redis, by what they are."""
        waiting, overdue = await self.waiting(), await self._webhooks.overdue()
        found, archive = await workload(self._committer), await self.archive()
        return {
            **found,
            "waiting": waiting,
            "webhooks_overdue": overdue,
            "archive_waiting": archive.due,
            "archive_failing": archive.failing_since is not None,
        }

    @refusing
    async def archive(self) -> ArchiveFacts:
        """Return what workers last found of the archive."""
        until = await redis_time_ms(self._committer) + AGAIN_MS
        found, due = await replies_in_order(
            self._committer.execute("HGETALL", keys.ARCHIVE),
            self._committer.execute("ZCOUNT", keys.TO_ARCHIVE, "-inf", until),
        )
        since = found.get(b"failing_since")
        return ArchiveFacts(
            found.get(b"installation", b"").decode(),
            None if since is None else moment(int(since)),
            found.get(b"error", b"").decode(),
            due,
        )

    @refusing
    async def used_memory(self) -> float:
        """Return the share of Redis's maxmemory that is used; 0 without a limit."""
        await self._server.measure()
        return self._server.used_share

    @refusing
    async def memory_flaws(self) -> tuple[str, ...]:
        """Return why Redis takes no new refinements, or may lose some, for want of memory."""
        await self._server.measure()
        share, policy = self._server.used_share, self._server.policy
        full = f"{share:.0%} of the memory of Redis are used: new refinements are refused"
        evicts = f"maxmemory-policy is {policy}: Redis may evict refinements, set it to noeviction"
        found = {full: share >= FULL, evicts: policy != "noeviction"}
        return tuple(flaw for flaw, is_so in found.items() if is_so)

    @refusing
    async def limits(self) -> tuple[StoredLimit, ...]:
        """Return the models and providers that are limited or have an open breaker."""
        return await stored_limits(self._committer)

    @refusing
    async def unplayable(self) -> tuple[str, ...]:
        """Return the versions and kinds that refinements need and no running worker plays.

        Workers put such refinements back; `LATER` stands for what else they could not read.
        """
        return await unplayable(self._committer)


LOOK_S = 5.0


class LogRewriter:
    """Rewrites the file `every_s` seconds after a deletion, for all deletions until then.

    What was deleted is off the disk after that time and the time of a rewrite, and there is at most
    one rewrite in that time. What is due is noted in Redis: neither a restart of this process nor
    one of the server loses it, and a rewrite that fails is repeated.
    """

    def __init__(
        self,
        client: Redis,
        every_s: float,
        *,
        look_s: float = LOOK_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._every_ms = every_s * 1000
        self._look_s = look_s
        self._clock = clock
        self._looked_at = float("-inf")
        self._under_way: tuple[bytes | str, int] | None = None

    def tick(self) -> None:
        """Do what is due, now and then; it takes milliseconds. A server that is away is skipped."""
        if self._clock() - self._looked_at < self._look_s:
            return
        self._looked_at = self._clock()
        try:
            self._look()
        except RedisError:
            self._under_way = None

    def _look(self) -> None:
        if self._under_way is not None:
            self._finish(*self._under_way)
            return
        since, count = self._client.hmget(keys.ERASURES, ["since", "count"])
        seconds, micros = self._client.time()
        now = int(seconds) * 1000 + int(micros) // 1000
        if since is None or count is None or now - int(since) < self._every_ms:
            return
        self._client.bgrewriteaof()
        self._under_way = count, now

    def _finish(self, count: bytes | str, began: int) -> None:
        """Note that the file is rewritten, once it is; deletions since it began are due later."""
        state = self._client.info("persistence")
        if state["aof_rewrite_in_progress"] or state["aof_rewrite_scheduled"]:
            return
        self._under_way = None
        if state["aof_last_bgrewrite_status"] == "ok":
            self._client.eval(REWRITTEN.text, 0, count, began)
