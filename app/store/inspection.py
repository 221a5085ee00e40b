"""What an operator asks of the Redis of a service: how it is set up, who works, and at what."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from redis.exceptions import ResponseError

from app.contract.values import value
from app.store import keys
from app.store.committer import Committer
from app.store.scripts import UNPLAYABLE


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
class ServerFacts:
    """The Redis of a service.

    `info` is what INFO answers; `ahead_s` is how far its clock is ahead of this machine's;
    `fsync` is its `appendfsync`, empty if this client may not ask for it.
    """

    info: Mapping[str, Any]
    ahead_s: float
    fsync: str
    workers: tuple[WorkerFacts, ...]
    unplayable: tuple[str, ...]


async def inspect(committer: Committer, worker_key: Callable[[str], str]) -> ServerFacts:
    """Return how the Redis of a service is set up, and its workers by `worker_key`, RQ's key."""
    sent_at = time.time()
    seconds, microseconds = await committer.execute("TIME")
    halfway = (sent_at + time.time()) / 2
    now = seconds + microseconds / 1e6
    names = await committer.execute("ZRANGEBYSCORE", keys.WORKERS, now * 1000, "+inf")
    return ServerFacts(
        info=await committer.execute("INFO"),
        ahead_s=now - halfway,
        fsync=await _fsync(committer),
        workers=tuple(
            await asyncio.gather(*(_worker(committer, it.decode(), worker_key) for it in names))
        ),
        unplayable=tuple(sorted(it.decode() for it in await committer.submit(UNPLAYABLE))),
    )


async def workload(committer: Committer) -> dict[str, float]:
    """Return how many workers there are, and how many refinements they hold or a model parks."""
    seconds, _ = await committer.execute("TIME")
    parked = [it.decode() for it in await committer.execute("SMEMBERS", keys.PARKED)]
    names = await committer.execute("ZRANGEBYSCORE", keys.WORKERS, seconds * 1000, "+inf")
    counts = await asyncio.gather(
        *(committer.execute("SCARD", keys.HELD + it.decode()) for it in names),
        *(_parked(committer, it) for it in parked),
    )
    return {
        "held": sum(counts[: len(names)]),
        "parked": sum(counts[len(names) :]),
        "workers": len(names),
    }


async def _parked(committer: Committer, model: str) -> int:
    tenants = await committer.execute("ZRANGE", f"{keys.PARKED}:{model}", 0, -1)
    found = (f"{keys.PARKED_OF}{tenant.decode()}:{model}" for tenant in tenants)
    return sum(await asyncio.gather(*(committer.execute("ZCARD", it) for it in found)))


async def _worker(committer: Committer, name: str, worker_key: Callable[[str], str]) -> WorkerFacts:
    fields = ("hone_release", "python_version", "hostname", "pid")
    told, holds = await asyncio.gather(
        committer.execute("HMGET", worker_key(name), *fields),
        committer.execute("SCARD", keys.HELD + name),
    )
    release, python, host, pid = (text.decode() if text else "" for text in told)
    return WorkerFacts(name, release, python, host, pid, holds)


async def _fsync(committer: Committer) -> str:
    try:
        found = await committer.execute("CONFIG", "GET", "appendfsync")
    except ResponseError:  # a managed Redis, or an ACL, may refuse it
        return ""
    words = list(found.values() if isinstance(found, dict) else found)
    last = words[-1] if words else b""
    return last.decode() if isinstance(last, bytes) else str(last)
