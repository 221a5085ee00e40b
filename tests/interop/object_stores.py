"""Object stores as the archive of a whole service, which they leave in every way."""

import asyncio
import os
import secrets
import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from redis.asyncio import Redis

from app.cli.processes import environment_of, free_port
from app.store.archive import ObjectStore
from app.store.redis import keys
from benchmarks.environments import environment_with, node_modules_with
from tests.e2e.running_service import RunningService, running_service
from tests.waiting import TIMEOUT_S

PACKAGES = ("moto[s3]", "flask", "flask-cors")
PACKAGES_FOR_NODE = ("azurite@3", "@azure/storage-blob@12")
BUCKET = "archive"
COUNT = 10
Server = subprocess.Popen[bytes]
Variables = dict[str, str]
RATING = {"path": "iterations/1", "score": 0.5}
AWS_SCOPE = "key/20260101/us-east-1/s3/aws4_request"
"""What moto reads in a request, whose signature it does not check."""
NEW_CONTAINER = """
const [folder, url, name, key] = process.argv.slice(1)
const { ContainerClient, StorageSharedKeyCredential } = require(folder + "/@azure/storage-blob")
new ContainerClient(url, new StorageSharedKeyCredential(name, key)).create()
"""


def started(command: list[str], log: Path) -> Server:
    """Start a process that writes a log."""
    with log.open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=output)


@asynccontextmanager
async def listening(command: list[str], folder: Path, url: str) -> AsyncIterator[Server]:
    """Run a server that listens at this URL."""
    process = started(command, folder / "store.log")
    try:
        async with httpx.AsyncClient(timeout=TIMEOUT_S) as client, asyncio.timeout(TIMEOUT_S):
            while True:
                try:
                    await client.get(url)
                    break
                except httpx.TransportError:
                    await asyncio.sleep(0.2)
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait(TIMEOUT_S)


@asynccontextmanager
async def moto(folder: Path) -> AsyncIterator[tuple[Server, Variables]]:
    """Run moto's server with an empty bucket; yield its process and what leads to it.

    Google's client speaks a protocol like S3, without its signatures.
    """
    python = await asyncio.to_thread(environment_with, "moto", *PACKAGES)
    port = free_port("127.0.0.1")
    command = [str(python.with_name("moto_server")), "-H", "127.0.0.1", "-p", str(port)]
    url = f"http://127.0.0.1:{port}"
    async with listening(command, folder, url) as process:
        async with httpx.AsyncClient(timeout=TIMEOUT_S) as client:
            (await client.put(f"{url}/{BUCKET}")).raise_for_status()
        yield (
            process,
            {
                "AWS_ENDPOINT_URL": url,
                "AWS_REGION": "us-east-1",
                "AWS_ACCESS_KEY_ID": "key",
                "AWS_SECRET_ACCESS_KEY": "secret",
                "GOOGLE_BASE_URL": url,
                "GOOGLE_BEARER_TOKEN": AWS_SCOPE,
            },
        )


@asynccontextmanager
async def azurite(folder: Path) -> AsyncIterator[tuple[Server, Variables]]:
    """Run Microsoft's server with an empty container; yield its process and what leads to it."""
    modules = await asyncio.to_thread(node_modules_with, "azurite", *PACKAGES_FOR_NODE)
    key = b64encode(secrets.token_bytes(32)).decode()
    os.environ["AZURITE_ACCOUNTS"] = f"hone:{key}"
    port = free_port("127.0.0.1")
    program = modules / "azurite" / "dist" / "src" / "blob" / "main.js"
    kept = ("--location", str(folder / "blobs"), "--skipApiVersionCheck", "--disableTelemetry")
    command = ["node", str(program), "--blobPort", str(port), *kept]
    url = f"http://127.0.0.1:{port}/hone"
    async with listening(command, folder, url) as process:
        made = ("node", "-e", NEW_CONTAINER, str(modules), f"{url}/{BUCKET}", "hone", key)
        await asyncio.to_thread(subprocess.run, made, check=True)
        yield (
            process,
            {
                "AZURE_STORAGE_ENDPOINT": url,
                "AZURE_STORAGE_ACCOUNT_NAME": "hone",
                "AZURE_STORAGE_ACCOUNT_KEY": key,
            },
        )


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


async def _use(service: RunningService, server: Server) -> None:
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
    assert await _checked(service) == (0, "")
    objects = ObjectStore(service.settings.archive_url)
    found = " ".join([each.path async for each in objects.listed("")])
    assert ids[0] not in found, "it was erased"
    assert ids[5] in found


async def _checked(service: RunningService) -> tuple[int | None, str]:
    """Return the status of `hone archive check`, and what it says of an error."""
    command = (sys.executable, "-m", "app.cli", "archive", "check")
    environment = {**os.environ, **environment_of(service.settings)}
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    _, told = await process.communicate()
    return process.returncode, told.decode()


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
    status, told = await _checked(service)
    assert status == 1
    assert told.count("\n") == 1, told
    assert not await redis.hexists(keys.SUMMARY + later, "stub")


Opened = Callable[[Path], AbstractAsyncContextManager[tuple[Server, Variables]]]


def playing(opened: Opened, scheme: str) -> Callable[[Path], Awaitable[bool]]:
    """Return what plays everything, and prints one line or raises what was not as it should be."""

    async def play(folder: Path) -> bool:
        async with opened(folder) as (server, variables):
            os.environ.update(variables)  # the processes of the service inherit them
            settings: dict[str, Any] = {
                "archive_url": f"{scheme}://{BUCKET}/hone",
                "archive_after_s": 0,
                "pack_after_s": 0,
            }
            async with running_service(folder, **settings) as service:
                await _use(service, server)
        print(f"{scheme}://: {COUNT} archived, read, brought back, erased; the store was away")
        return True

    return play
