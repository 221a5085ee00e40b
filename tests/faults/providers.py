"""Providers of models in a bad hour: limits, outages and refused keys, and what they cost."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import psutil  # type: ignore[import-untyped]

from app.store.redis import keys
from benchmarks.model_replies import (
    HANG,
    RESET,
    AskedPrompt,
    Behaviour,
    ModelServerReply,
    refusal,
)
from tests.faults.clients import OTHER_PATH
from tests.faults.cluster import Cluster

Nemesis = Callable[[Cluster], Coroutine[Any, Any, None]]

DISCOVERED_S = 10.0
"""Seconds into an outage after which only probes may be sent, and no slot may be held."""

PROBES = 2
"""Refinements that may be in hand then: they find out whether the outage is over."""

PARKED_S = 15.0
"""Seconds after the grace in which everything that waits for cell 0 is parked."""

BACKLOG, BACKLOG_S = 3000, 15.0
"""Refinements that are queued for a provider that is stuck, and how long clients take for it."""
STUCK_AFTER_S, STUCK_S, SLOW_S = 20.0, 30.0, 30.0

OVERLOADED = refusal(503, "The server is overloaded.")
WRONG_KEY = refusal(401, "Incorrect API key provided.", code="invalid_api_key")
NO_CREDIT = refusal(
    429,
    "You exceeded your current quota, please check your plan and billing details.",
    type="insufficient_quota",
    code="insufficient_quota",
)


class RateLimited:
    """A provider that answers at most `calls` in any second, and refuses the others."""

    def __init__(self, normal: Behaviour, calls: int) -> None:
        self._normal = normal
        self._calls = calls
        self._accepted: deque[float] = deque()

    def __call__(self, asked: AskedPrompt) -> ModelServerReply:
        """Answer a call, or refuse it; the other provider has no limit."""
        if asked.path.startswith(OTHER_PATH):
            return self._normal(asked)
        now = time.monotonic()
        while self._accepted and now - self._accepted[0] >= 1:
            self._accepted.popleft()
        if len(self._accepted) >= self._calls:
            return refusal(429, "Rate limit reached.", ("Retry-After", "1"))
        self._accepted.append(now)
        return self._normal(asked)


def limits(calls: int) -> Nemesis:
    """Return one that lets the provider answer at most so many calls a second, from the start."""

    async def limit(cluster: Cluster) -> None:
        cluster.models.behaviour = RateLimited(cluster.models.behaviour, calls)

    return limit


@asynccontextmanager
async def refusing(cluster: Cluster, reply: ModelServerReply | None) -> AsyncIterator[None]:
    """Let the provider answer every call with `reply`; with None it cannot be reached at all."""
    if reply is None:
        with cluster.models.unreachable():
            yield
        return
    normal = cluster.models.behaviour
    cluster.models.behaviour = lambda _asked: reply
    try:
        yield
    finally:
        cluster.models.behaviour = normal


def outage(
    seconds: float, reply: ModelServerReply | None = RESET, *, kills: int = 0, after_s: float = 3.0
) -> Nemesis:
    """Return one that lets the provider fail for so long, and kills workers meanwhile.

    It notes how many calls were made after the failure had been discovered, and that no slot was
    held any more.
    """

    async def fail(cluster: Cluster) -> None:
        await asyncio.sleep(after_s)
        began = time.time()
        async with refusing(cluster, reply):
            if seconds > DISCOVERED_S:
                await asyncio.sleep(DISCOVERED_S)
                if (held := _held(cluster)) > PROBES:
                    cluster.broken.append(f"{held} slots are held {DISCOVERED_S:g} s into it")
            for _ in range(kills):
                await asyncio.sleep((seconds - DISCOVERED_S) / kills)
                cluster.kill_worker()
            await asyncio.sleep(max(0.0, began + seconds - time.time()))
        cluster.counts["s of outage"] += round(seconds)
        _count_calls(cluster, began, seconds)

    return fail


def _held(cluster: Cluster) -> int:
    """Return how many refinements are in the hands of workers."""
    found = cluster.command("KEYS", keys.HELD + "*")
    return sum(cluster.command("SCARD", key) for key in found)


def _count_calls(cluster: Cluster, began: float, seconds: float) -> None:
    """Note the calls of an outage; one a second is what probes may cost."""
    refused = [it.began_at - began for it in cluster.calls if it.is_refused]
    late = sum(DISCOVERED_S < at <= seconds for at in refused)
    cluster.counts["calls in the outage"] += sum(0 <= at <= seconds for at in refused)
    cluster.counts[f"of them after {DISCOVERED_S:g} s"] += late
    if late > max(seconds - DISCOVERED_S, 0):
        cluster.broken.append(f"{late} calls later than {DISCOVERED_S:g} s into the outage")


def kills_beside_a_limit(workers: int, redis: int) -> Nemesis:
    """Return one that kills a worker and Redis so often, in any order."""

    async def kill(cluster: Cluster) -> None:
        faults = [cluster.kill_worker] * workers + [cluster.kill_redis] * redis
        cluster.chance.shuffle(faults)
        for fault in faults:
            await asyncio.sleep(cluster.chance.uniform(1, 3))
            fault()

    return kill


def lose_cell0(calls: int = 0) -> Nemesis:
    """Return one that takes cell 0 away twice, and lets the provider limit calls by then.

    It notes calls that the provider refused then, and those made after the grace.
    """

    async def lose(cluster: Cluster) -> None:
        if calls:
            cluster.models.behaviour = RateLimited(cluster.models.behaviour, calls)
        grace_s = cluster.settings.cell0_grace_s
        for seconds, is_killed in ((0.6 * grace_s, False), (grace_s + PARKED_S, True)):
            await asyncio.sleep(cluster.chance.uniform(6, 9))
            began = time.time()
            async with cluster.without_cell0(is_killed=is_killed):
                await asyncio.sleep(seconds)
                if is_killed and (held := _held(cluster)):
                    cluster.broken.append(f"{held} slots are held {PARKED_S:g} s after the grace")
            _check_without_cell0(cluster, began, min(seconds, grace_s), seconds)
            cluster.counts["s without cell 0"] += round(seconds)

    return lose


def _check_without_cell0(cluster: Cluster, began: float, grace_s: float, seconds: float) -> None:
    """Note whether work went on in the grace, within the limit of the provider, and not later."""
    since = [(it.began_at - began, it.is_refused) for it in cluster.calls]
    refused = sum(is_refused and 1 <= at <= seconds for at, is_refused in since)
    alone = sum(3 <= at <= grace_s for at, _ in since)
    late = sum(grace_s + 1 < at <= seconds for at, _ in since)
    cluster.counts["calls in the grace"] += alone
    if refused or late or not alone:
        cluster.broken.append(
            f"without cell 0: {refused} calls over the limit, {alone} in the grace, {late} later"
        )


def hanging(normal: Behaviour) -> Behaviour:
    """Return a provider that never answers a call; the other provider answers as before."""
    return lambda asked: normal(asked) if asked.path.startswith(OTHER_PATH) else HANG


def slowed(normal: Behaviour) -> Behaviour:
    """Return a provider that answers every call after 30 s; the other one answers as before."""

    def answer(asked: AskedPrompt) -> ModelServerReply:
        reply = normal(asked)
        return reply if asked.path.startswith(OTHER_PATH) else replace(reply, delay_s=SLOW_S)

    return answer


def stuck(becomes: Callable[[Behaviour], Behaviour]) -> Nemesis:
    """Return one that lets the provider become stuck once many of its refinements are queued.

    These are deleted at the end, and their calls are none of the run's. It notes how much memory
    a worker took for what it held.
    """

    async def stick(cluster: Cluster) -> None:
        await asyncio.sleep(STUCK_AFTER_S)
        before = _memory(cluster)
        normal = cluster.models.behaviour
        cluster.models.behaviour = becomes(normal)
        connector = aiohttp.TCPConnector(limit=20)
        async with aiohttp.ClientSession(cluster.url, connector=connector) as session:
            ids = await _paced(BACKLOG, BACKLOG_S, lambda: _submit(session))
            await asyncio.sleep(STUCK_S - BACKLOG_S)
            held, most = _held(cluster), len(cluster.workers) * cluster.settings.most_held
            if held >= most / 2:
                cluster.broken.append(f"{held} of {most} places are held")
            cluster.counts["MB more in a worker"] = round((_memory(cluster) - before) / 1e6)
            cluster.counts["refinements held"] = held
            left = iter(ids)
            await _paced(BACKLOG, BACKLOG_S, lambda: _delete(session, next(left)))
        cluster.models.behaviour = normal
        cluster.counts["s of it"] = round(STUCK_S)
        own = set(ids)
        cluster.calls[:] = [it for it in cluster.calls if it.refinement_id not in own]

    return stick


def _memory(cluster: Cluster) -> int:
    """Return the resident bytes of the largest worker."""
    return max(int(psutil.Process(it.pid).memory_info().rss) for it in cluster.workers)


async def _paced(
    count: int, seconds: float, do: Callable[[], Coroutine[Any, Any, str]]
) -> list[str]:
    """Do something so many times, evenly spread; return the results."""
    began, doing = time.monotonic(), []
    for number in range(count):
        await asyncio.sleep(max(0.0, began + seconds * number / count - time.monotonic()))
        doing.append(asyncio.create_task(do()))
    return await asyncio.gather(*doing)


async def _submit(session: aiohttp.ClientSession) -> str:
    body = {"task": "Explain refunds.", "threshold": 1.0, "max_iterations": 4}
    async with session.post("/v1/refinements", json=body) as response:
        answer = await response.json()
        assert response.status == 202, answer
        return str(answer["id"])


async def _delete(session: aiohttp.ClientSession, refinement_id: str) -> str:
    async with session.delete(f"/v1/refinements/{refinement_id}") as response:
        assert response.status in {200, 202, 204, 404}, await response.text()
    return refinement_id
