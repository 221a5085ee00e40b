"""The whole service as processes behind a proxy, and faults that a seed chooses."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
from redis import Redis

from app.local.embedded import EmbeddedRedis
from app.store import keys
from benchmarks.model_replies import improving
from tests.e2e.running_service import RunningService, running_service
from tests.faults.tcp_proxy import TcpProxy, tcp_proxy

LEASE_S = 5.0
ENDED = {"succeeded", "failed", "canceled"}


@dataclass
class Cluster:
    """A running service of several workers, and what a fault may do to it."""

    service: RunningService
    proxy: TcpProxy
    chance: Random
    kills: int = 0
    exits: int = 0
    in_flight_at_kills: int = 0

    @property
    def workers(self) -> list[Any]:
        """Worker processes that run."""
        return [it for it in self.service.processes[1:] if it.poll() is None]

    def kill_worker(self) -> None:
        """Kill one worker at once, and start another in its place."""
        victim = self.chance.choice(self.workers)
        self.in_flight_at_kills += self.service.models.counts.in_flight
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        self.kills += 1
        self.service.worker()

    def replace_dead(self, count: int) -> None:
        """Start a worker for each that ended by itself: a supervisor would."""
        while len(self.workers) < count:
            self.exits += 1
            self.service.worker()

    async def reset(self) -> None:
        """Reset every connection to Redis."""
        await asyncio.get_running_loop().run_in_executor(None, self.proxy.reset)

    def restart_redis(self) -> None:
        """Kill Redis and start it on the same data."""
        redis = self.service.redis
        os.kill(redis.pid, signal.SIGKILL)
        while redis.is_running:
            time.sleep(0.01)
        redis.revive()

    async def submit(self, count: int) -> list[str]:
        """Submit refinements as a client does: again after an error, with the same key."""
        return [await self._submitted(number) for number in range(count)]

    async def _submitted(self, number: int) -> str:
        body = {"task": f"Explain refund {number}.", "max_iterations": 4, "threshold": 1.0}
        key = {"Idempotency-Key": f"key-{number}"}
        while True:
            with suppress(httpx.TransportError):
                response = await self.service.client.post("/v1/refinements", json=body, headers=key)
                if response.status_code == 202:
                    return str(response.json()["id"])
                assert response.status_code == 503, response.text
            await asyncio.sleep(0.2)

    async def until_ended(self, ids: list[str], timeout_s: float, workers: int) -> float:
        """Return the seconds until all have ended, at most `timeout_s`."""
        began = time.monotonic()
        with Redis.from_url(self.service.redis.url) as client:
            while time.monotonic() - began < timeout_s:
                statuses = {_status(client, it) for it in ids}
                if statuses <= ENDED:
                    break
                self.replace_dead(workers)
                await asyncio.sleep(0.2)
        return time.monotonic() - began


def _status(client: Redis, refinement_id: str) -> str:
    stored: Any = client.hget(keys.SUMMARY + refinement_id, "status")
    return stored.decode() if stored else "lost"


@dataclass(frozen=True)
class Verdict:
    """What the whole history of a run shows."""

    refinements: int
    statuses: Counter[str]
    broken: tuple[str, ...]
    repeated_calls: int

    @property
    def is_kept(self) -> bool:
        """Whether every promise about the record was kept."""
        return not self.broken and self.statuses == {"succeeded": self.refinements}


def checked(cluster: Cluster, ids: list[str]) -> Verdict:
    """Check every journal: numbers without a gap, one entry per step, tokens that rise, one end."""
    with Redis.from_url(cluster.service.redis.url) as client:
        statuses = Counter(_status(client, it) for it in ids)
        broken = tuple(wrong for it in ids for wrong in _broken(client, it))
    counts = cluster.service.models.counts.keys
    return Verdict(len(ids), statuses, broken, sum(counts.values()) - len(counts))


def _broken(client: Redis, refinement_id: str) -> Iterator[str]:
    entries: Any = client.xrange(keys.JOURNAL + refinement_id)
    if [number for number, _ in entries] != [b"%d-0" % n for n in range(1, len(entries) + 1)]:
        yield f"{refinement_id}: a gap in the numbers"
    kinds = [fields[b"type"].decode() for _, fields in entries]
    steps = Counter(
        fields[b"data"].split(b'"key":"', 1)[1].split(b'"', 1)[0]
        for _, fields in entries
        if fields[b"type"] in {b"step.completed", b"step.failed"}
    )
    if twice := [key.decode() for key, count in steps.items() if count > 1]:
        yield f"{refinement_id}: journaled twice: {twice}"
    ends = [kind for kind in kinds if kind.split(".")[1] in {"completed", "failed", "canceled"}]
    ends = [kind for kind in ends if kind.startswith("refinement.")]
    if len(ends) != 1 or not kinds[-1].startswith("refinement."):
        yield f"{refinement_id}: ends {ends}"
    tokens = [
        int(fields[b"data"].split(b'"token":', 1)[1].split(b",")[0].rstrip(b"}"))
        for _, fields in entries
        if fields[b"type"] in {b"refinement.started", b"refinement.resumed"}
    ]
    if tokens != sorted(set(tokens)):
        yield f"{refinement_id}: tokens {tokens}"


@asynccontextmanager
async def running_cluster(path: Path, seed: int, workers: int = 2) -> AsyncIterator[Cluster]:
    """Run Redis with its AOF, an API and workers that reach it through a proxy, and a model."""
    proxies: list[TcpProxy] = []

    @contextmanager
    def route(redis: EmbeddedRedis) -> Iterator[str]:
        with tcp_proxy(unquote(urlsplit(redis.url).path)) as proxy:
            proxies.append(proxy)
            yield proxy.url

    async with running_service(
        path,
        improving,
        workers=workers,
        route=route,
        redis_timeout_s=1.8,
        lease_s=LEASE_S,
        grace_s=5,
    ) as service:
        service.models.latency_s = 1.0
        yield Cluster(service, proxies[0], Random(seed))
