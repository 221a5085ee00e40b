"""What an operator asks of the Redis of a service: how it is set up, who works, and at what."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from pydantic_core import from_json
from redis.exceptions import ResponseError
from ulid import ULID

from app.contract.status import Status
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


async def standing(committer: Committer) -> dict[str, float]:
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


LIVE = (Status.QUEUED, Status.RUNNING, Status.PAUSED, Status.CANCELING)
MOST_TENANTS = 100
_ROW = ("status", "strategy", "iteration", "phase", "attempt", "holder", "parked", "review")


@value(slots=True)
class LiveWorker:
    """A worker whose lease has not expired; `free` slots are None if it has not said how many.

    `lease_s` is how long its lease still lasts: a worker that stands still renews it no more.
    """

    name: str
    release: str
    host: str
    pid: str
    holds: int
    free: int | None
    lease_s: float


@value(slots=True)
class LiveRefinement:
    """A refinement that has not ended. `waits_for` names models, or is a review."""

    id: str
    tenant: str
    status: str
    age_s: float
    strategy: str
    iteration: int | None
    steps: tuple[str, ...]
    attempt: int
    worker: str
    waits_for: tuple[str, ...]


@value(slots=True)
class Overview:
    """What goes on in a service: the refinements that have not ended, and who works.

    `waiting` are those with a job in the queue or a place in a line, `parked` how many wait for
    each model without a worker. `counts` by status and the `oldest` are those of `shown_tenants`.
    """

    counts: Mapping[str, int]
    waiting: int
    parked: Mapping[str, int]
    workers: tuple[LiveWorker, ...]
    oldest: tuple[LiveRefinement, ...]
    tenants: int
    shown_tenants: int


async def overview(
    committer: Committer, tenants: Sequence[str], rows: int, worker_key: Callable[[str], str]
) -> Overview:
    """Return what goes on, with the `rows` oldest refinements that have not ended.

    Everything is read by index: the number of commands grows with the tenants (8 for each, at most
    100), the workers and the models, not with the refinements.
    """
    shown = tenants[:MOST_TENANTS]
    seconds, micros = await committer.execute("TIME")
    now_ms = seconds * 1000 + micros / 1000
    waiting, parked, workers, listed = await asyncio.gather(
        committer.execute("ZCARD", keys.WAITING),
        _all_parked(committer),
        _live_workers(committer, now_ms, worker_key),
        asyncio.gather(
            *(_listed(committer, tenant, status, rows) for tenant in shown for status in LIVE)
        ),
    )
    counts = Counter[str](dict.fromkeys(LIVE, 0))
    for status, count, _ in listed:
        counts[status] += count
    ids = sorted((it for *_, found in listed for it in found), key=itemgetter(1))[:rows]
    oldest = await asyncio.gather(*(_live(committer, *it, now_ms) for it in ids))
    return Overview(
        counts=dict(counts),
        waiting=waiting,
        parked=parked,
        workers=workers,
        oldest=tuple(it for it in oldest if it is not None),
        tenants=len(tenants),
        shown_tenants=len(shown),
    )


async def _listed(
    committer: Committer, tenant: str, status: Status, rows: int
) -> tuple[Status, int, list[tuple[str, str]]]:
    """Return how many refinements of a tenant have a status, and the oldest: tenant and id."""
    name = keys.listed_by_status(tenant, status)
    count, ids = await asyncio.gather(
        committer.execute("ZCARD", name), committer.execute("ZRANGE", name, 0, rows - 1)
    )
    return status, count, [(tenant, it.decode()) for it in ids]


async def _live(
    committer: Committer, tenant: str, refinement_id: str, now_ms: float
) -> LiveRefinement | None:
    found = await committer.execute("HMGET", keys.SUMMARY + refinement_id, *_ROW)
    status, strategy, iteration, phase, attempt, holder, parked, review = found
    if status is None:  # it has been erased meanwhile
        return None
    created_ms = ULID.from_str(refinement_id.removeprefix("ref_")).milliseconds
    return LiveRefinement(
        id=refinement_id,
        tenant=tenant,
        status=status.decode(),
        age_s=round(max(0.0, now_ms - created_ms) / 1000, 1),
        strategy=strategy.decode(),
        iteration=from_json(iteration or b"null"),
        steps=tuple(from_json(phase or b"[]")),
        attempt=int(attempt or 0),
        worker=(holder or b"").decode(),
        waits_for=("review",) if review else tuple(from_json(parked or b"[]")),
    )


async def _live_workers(
    committer: Committer, now_ms: float, worker_key: Callable[[str], str]
) -> tuple[LiveWorker, ...]:
    names, slots = await asyncio.gather(
        committer.execute("ZRANGEBYSCORE", keys.WORKERS, now_ms, "+inf"),
        committer.execute("HGETALL", keys.SLOTS),
    )
    leases, facts = await asyncio.gather(
        asyncio.gather(*(committer.execute("ZSCORE", keys.WORKERS, it) for it in names)),
        asyncio.gather(*(_worker(committer, it.decode(), worker_key) for it in names)),
    )
    return tuple(
        LiveWorker(
            name=it.name,
            release=it.release,
            host=it.host,
            pid=it.pid,
            holds=it.holds,
            free=int(slots[name]) if name in slots else None,
            lease_s=round((float(lease or now_ms) - now_ms) / 1000, 1),
        )
        for name, lease, it in zip(names, leases, facts, strict=True)
    )


async def _all_parked(committer: Committer) -> dict[str, int]:
    models = sorted(it.decode() for it in await committer.execute("SMEMBERS", keys.PARKED))
    counts = await asyncio.gather(*(_parked(committer, it) for it in models))
    return dict(zip(models, counts, strict=True))
