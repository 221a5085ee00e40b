"""The whole service as it runs: uvicorn, Redis with its AOF, workers, and a model server."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from app.cli.processes import environment_of, url_of
from app.local.embedded import EmbeddedRedis
from app.settings import Settings
from benchmarks.model_replies import Behaviour, improving
from benchmarks.model_server import ScriptedModelServer
from tests.ports import reserved_port
from tests.waiting import TIMEOUT_S

UNFINISHED = ("queued", "running", "paused", "canceling")
TERMINAL = {"succeeded", "failed", "canceled"}

LEASE_S = 30.0
"""No pause of a busy machine is as long. That a worker was killed the others see without it."""

MARKER = {
    "task": None,
    "draft": "It is short.",
    "criteria": [{"name": "conciseness"}],
    "models": dict.fromkeys(("generator", "critic"), "offline:editor"),
}
"""What a worker plays at once, without a call."""


@dataclass
class RunningService:
    """A running service, and what a test may do to it."""

    settings: Settings
    client: httpx.AsyncClient
    models: ScriptedModelServer
    redis: EmbeddedRedis
    logs: Path
    worker_module: str = "workers"
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *module: str, code: Path | None = None) -> subprocess.Popen[bytes]:
        """Start a process of the service with the service's settings.

        `code` is the folder that it imports `app` and `workers` from: another version's.
        """
        log = self.logs / f"{len(self.processes)}-{module[0]}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", *module],
                cwd=code,  # `-m` looks there first
                env=os.environ | environment_of(self.settings),
                stdout=output,
                stderr=output,
            )
        self.processes.append(process)
        return process

    def worker(self, code: Path | None = None) -> subprocess.Popen[bytes]:
        """Start one more worker, of this version or of the one in `code`."""
        return self.start(self.worker_module, code=code)

    async def submit(self, **fields: Any) -> str:
        """Submit a task alone, unless the fields say otherwise; return the id."""
        body = {"task": "Explain refunds.", "max_iterations": 9, **fields}
        response = await self.client.post("/v1/refinements", json=body)
        assert response.status_code == 202, response.text
        return str(response.json()["id"])

    async def send(self, method: str, path: str, body: Any = None) -> None:
        """Send a command; one that is refused is an error here, not a wait for what never comes."""
        (await self.client.request(method, path, json=body)).raise_for_status()

    async def get(self, refinement_id: str, part: str = "") -> Any:
        response = await self.client.get(f"/v1/refinements/{refinement_id}{part}")
        assert response.status_code == 200, response.text
        return response.json()

    async def ended(self, refinement_id: str, within_s: float = TIMEOUT_S) -> Any:
        """Poll, as a client would, until the refinement has ended."""
        async with asyncio.timeout(within_s):
            while True:
                snapshot = await self.get(refinement_id)
                if snapshot["status"] in TERMINAL:
                    return snapshot
                await asyncio.sleep(0.05)

    async def events(self, refinement_id: str, **headers: str) -> list[dict[str, Any]]:
        """Read the event stream to its end."""
        path = f"/v1/refinements/{refinement_id}/events"
        async with self.client.stream("GET", path, headers=headers, timeout=TIMEOUT_S) as stream:
            return [
                json.loads(line.removeprefix("data:"))
                async for line in stream.aiter_lines()
                if line.startswith("data:")
            ]

    async def erase_unfinished(self) -> None:
        """Erase every refinement that has not ended, and return once none will make a call.

        A worker between two calls makes the next one before it learns of the erasure. It has
        learnt of it when it has played something else.
        """
        listed = await self.client.get(
            "/v1/refinements", params={"status": UNFINISHED, "limit": 100}
        )
        for refinement in listed.json()["data"]:
            await self.client.delete(f"/v1/refinements/{refinement['id']}")
        if listed.json()["data"]:
            await self.ended(await self.submit(**MARKER))
        await self.until(lambda: self.models.counts.in_flight == 0)

    async def ready(self, workers: int) -> None:
        """Return once the API answers and so many workers run."""
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                try:
                    ready = (await self.client.get("/readyz")).json()
                    if ready["workers"] >= workers:
                        return
                except httpx.TransportError:
                    pass
                ended = [it.args for it in self.processes if it.returncode is None and it.poll()]
                assert not ended, _logs(self)
                await asyncio.sleep(0.1)

    async def asked_to_leave(self, worker: subprocess.Popen[bytes]) -> None:
        """Have a worker take no more work, and return once it has said so."""
        (log,) = self.logs.glob(f"{self.processes.index(worker)}-*.log")
        worker.send_signal(signal.SIGTERM)
        await self.until(lambda: b"shutting down" in log.read_bytes())

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return once something has come true that no event shows."""
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():  # noqa: ASYNC110 - another process makes it true
                await asyncio.sleep(0.01)


@contextmanager
def frozen(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Keep a process from running, so that what happens meanwhile happens before it acts."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


@contextmanager
def direct(redis: EmbeddedRedis) -> Iterator[str]:
    """Have every process connect to Redis itself."""
    yield redis.url


@asynccontextmanager
async def running_service(
    path: Path,
    behaviour: Behaviour = improving,
    *,
    workers: int = 1,
    worker_module: str = "workers",
    route: Callable[[EmbeddedRedis], AbstractContextManager[str]] = direct,
    code: Path | None = None,
    **settings: Any,
) -> AsyncIterator[RunningService]:
    """Start everything, and leave nothing running.

    `route` gives the address of Redis; `code` is the folder of another version to begin with.
    """
    with (
        EmbeddedRedis(path / "data") as redis,
        route(redis) as redis_url,
        reserved_port() as port,
    ):
        async with ScriptedModelServer(behaviour) as models:
            made = Settings(
                redis_url=redis_url,
                port=port,
                **{
                    "openai_base_url": models.url,
                    "model": "openai:test",
                    "workers": 1,
                    "redis_timeout_s": 60,
                    "lease_s": LEASE_S,
                    "grace_s": 60,
                    **settings,
                },
            )
            async with httpx.AsyncClient(base_url=url_of(made), timeout=TIMEOUT_S) as client:
                service = RunningService(made, client, models, redis, path, worker_module)
                try:
                    service.start("app.cli", "api", code=code)
                    for _ in range(workers):
                        service.worker(code)
                    await service.ready(workers)
                    yield service
                finally:
                    _end(service)


def _end(service: RunningService) -> None:
    for process in service.processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    for process in service.processes:
        try:
            process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _logs(service: RunningService) -> str:
    return "\n".join(log.read_text() for log in sorted(service.logs.glob("*.log")))
