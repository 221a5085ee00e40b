"""moto's S3 server as the archive of a whole service, which it leaves in every way."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from redis.asyncio import Redis

from app.cli.processes import free_port
from app.store.redis import keys
from benchmarks.environments import environment_with
from tests.e2e.running_service import RunningService, running_service
from tests.waiting import TIMEOUT_S

PACKAGES = ("moto[s3]", "flask", "flask-cors")
BUCKET = "archive"
COUNT = 10
Server = subprocess.Popen[bytes]
RATING = {"path": "iterations/1", "score": 0.5}


def started(command: list[str], log: Path) -> Server:
    """Start a process that writes a log."""
    with log.open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=output)


@asynccontextmanager
async def s3_server(
    python: Path, folder: Path
) -> AsyncIterator[tuple[subprocess.Popen[bytes], str]]:
    """Run the server with an empty bucket; yield its process and its URL."""
    port = free_port("127.0.0.1")
    command = [str(python.with_name("moto_server")), "-H", "127.0.0.1", "-p", str(port)]
    process = started(command, folder / "s3.log")
    url = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient(timeout=TIMEOUT_S) as client, asyncio.timeout(TIMEOUT_S):
            while True:
                try:
                    (await client.put(f"{url}/{BUCKET}")).raise_for_status()
                    break
                except httpx.TransportError:
                    await asyncio.sleep(0.2)
        yield process, url
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait(TIMEOUT_S)


def credentials(url: str) -> dict[str, str]:
    """Return the variables with which the store finds the server."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }


async def until_archived(redis: Redis, ids: list[str]) -> None:
    """Return once each is a stub in Redis."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            found = [await redis.hexists(keys.SUMMARY + each, "stub") for each in ids]
            if all(found):
                return
            await asyncio.sleep(0.1)


async def until_ready(service: RunningService, warning: str) -> None:
    """Return once readiness has this warning, or no warning about the archive for an empty one."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            found = (await service.client.get("/readyz")).json()["warnings"]
            told = [text for text in found if "the archive fails" in text]
            if bool(told) == bool(warning) and all(warning in text for text in told):
                return
            await asyncio.sleep(0.2)


async def read(service: RunningService, refinement_id: str) -> list[Any]:
    """Return what can be read of a refinement."""
    parts = ("", "/steps", "/iterations", "/request", "/diff?from=1&to=2")
    snapshot, *found = [await service.get(refinement_id, part) for part in parts]
    del snapshot["archived"]
    at = f"/v1/refinements/{refinement_id}"
    events = await service.client.get(f"{at}/events", headers={"Accept": "application/json"})
    told = events.json()["data"]
    del told[-1]["data"]["archived"]
    report = await service.client.get(f"{at}/report")
    return [snapshot, *found, told, report.text]


async def _use(service: RunningService, server: Server, url: str) -> None:
    ids = [await service.submit(max_iterations=2) for _ in range(COUNT)]
    for refinement_id in ids:
        await service.ended(refinement_id)
    before = [await read(service, refinement_id) for refinement_id in ids]
    async with Redis.from_url(service.settings.redis_url) as redis:
        await until_archived(redis, ids)
        assert [await read(service, refinement_id) for refinement_id in ids] == before
        await _bring_back_and_erase(service, redis, ids[:3])
        server.send_signal(signal.SIGSTOP)
        await _endure(service, redis, ids[3:])
        server.send_signal(signal.SIGCONT)
        await until_ready(service, "")
    async with httpx.AsyncClient(timeout=TIMEOUT_S) as client:
        found = (await client.get(f"{url}/{BUCKET}?list-type=2")).text
    assert ids[0] not in found, "it was erased"
    assert ids[5] in found


async def _bring_back_and_erase(service: RunningService, redis: Redis, ids: list[str]) -> None:
    erased, rated, continued = (f"/v1/refinements/{refinement_id}" for refinement_id in ids)
    assert (await service.client.delete(erased)).status_code == 204
    assert (await service.client.get(erased)).status_code == 404
    assert (await service.client.post(f"{rated}/ratings", json=RATING)).is_success
    assert (await service.client.post(f"{continued}/continue", json={})).status_code == 202
    await until_archived(redis, ids[1:])


async def _endure(service: RunningService, redis: Redis, ids: list[str]) -> None:
    """Use a service whose object store has stopped to answer."""
    later = await service.submit(max_iterations=1)
    await service.ended(later)
    async with asyncio.timeout(2 * TIMEOUT_S):
        while True:  # what was read a moment ago is kept
            at = f"/v1/refinements/{ids[0]}"
            answer = await service.client.get(at, timeout=TIMEOUT_S)
            if answer.status_code == 503:
                break
            await asyncio.sleep(1)
    assert answer.headers["retry-after"] == "30"
    listed = (await service.client.get("/v1/refinements?limit=100")).json()["data"]
    assert {*ids, later} <= {shown["id"] for shown in listed}
    await until_ready(service, "does not answer")
    assert not await redis.hexists(keys.SUMMARY + later, "stub")


async def play(folder: Path) -> bool:
    """Play everything; print one line, or raise what was not as it should be."""
    python = await asyncio.to_thread(environment_with, "moto", *PACKAGES)
    async with s3_server(python, folder) as (server, url):
        os.environ.update(credentials(url))  # the processes of the service inherit them
        settings: dict[str, Any] = {
            "archive_url": f"s3://{BUCKET}/hone",
            "archive_after_s": 0,
            "pack_after_s": 0,
        }
        async with running_service(folder, **settings) as service:
            await _use(service, server, url)
    print(f"S3: {COUNT} refinements archived, read, brought back, erased; the store was away")
    return True
