"""Providers of models in a bad hour: limits, outages and refused keys, and what they cost."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from app.store import keys
from benchmarks.model_replies import (
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
    found = cluster.command("KEYS", f"{keys.HELD}*")
    return sum(cluster.command("SCARD", key) for key in found)


def _count_calls(cluster: Cluster, began: float, seconds: float) -> None:
    """Note the calls of an outage; one a second is what probes may cost."""
    refused = [it.began_at - began for it in cluster.calls if it.is_refused]
    late = sum(DISCOVERED_S < at <= seconds for at in refused)
    cluster.counts["calls in the outage"] += sum(0 <= at <= seconds for at in refused)
    cluster.counts[f"of them after {DISCOVERED_S:g} s"] += late
    if late > max(seconds - DISCOVERED_S, 0):
        cluster.broken.append(f"{late} calls later than {DISCOVERED_S:g} s into the outage")
