"""API and workers are killed and started again; clients miss nothing. All watch one service."""

import asyncio
import signal
from asyncio.subprocess import Process
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

import hone
from app.cli.processes import url_of
from benchmarks.model_replies import draft
from hone.models import Result, Snapshot
from tests.e2e.running_service import RunningService, running_service
from tests.e2e.scripted_models import slow_at
from tests.e2e.test_typescript_client import play, said

pytestmark = pytest.mark.long

WAITS_AT = "iterations/2/critique"
CALLS_BEFORE = 4


@dataclass(frozen=True)
class ClientFindings:
    """What the Python client saw, and what the TypeScript client said at its end, if it ran."""

    ended: Snapshot
    seen: list[hone.Event]
    refined: Result
    statuses: Sequence[str]
    typescript: object


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def findings(
    compiled: Path | str, tmp_path_factory: pytest.TempPathFactory
) -> ClientFindings:
    """Kill everything but Redis while each client waits for its refinement, and start it again."""
    path = tmp_path_factory.mktemp("restarts")
    async with running_service(path, slow_at(WAITS_AT, 30)) as service:
        node = None
        if isinstance(compiled, Path):
            node = await play(compiled, "survives", url_of(service.settings))
            assert await said(node) == "watching"
        client = hone.AsyncHone(url_of(service.settings), max_retries=99)
        async with aclosing(client):
            return await through_restart(service, client, node)


async def through_restart(
    service: RunningService, client: hone.AsyncHone, node: Process | None
) -> ClientFindings:
    seen: list[hone.Event] = []
    submitted = await client.submit(task="Explain refunds.", max_iterations=9)

    async def watch() -> None:
        async for event in client.events(submitted):
            seen.append(event)  # noqa: PERF401 - looked at meanwhile

    watching, waiting = asyncio.create_task(watch()), asyncio.create_task(client.wait(submitted))
    calls = CALLS_BEFORE * (2 if node else 1)
    await service.until(lambda: service.models.counts.calls == calls and len(seen) > 3)
    for process in service.processes:
        process.send_signal(signal.SIGKILL)
        process.wait()
    service.models.behaviour = slow_at(WAITS_AT, 0)
    service.worker()
    if node and node.stdin:
        node.stdin.write(b"down\n")
    refining = asyncio.create_task(client.refine(task="Explain fees.", max_iterations=1))
    await asyncio.sleep(0.5)  # nobody listens meanwhile
    service.start("app.cli", "api")
    ended, refined = await waiting, await refining
    await watching
    typescript = await said(node) if node else None
    if node:
        await node.communicate()
    statuses = [it.status async for it in client.list()]
    return ClientFindings(ended, seen, refined, statuses, typescript)


async def test_what_the_python_client_waits_for_survives(findings: ClientFindings) -> None:
    assert findings.ended.result is not None
    assert (findings.ended.status, findings.ended.result.draft) == ("succeeded", draft(4))
    assert [it.event for it in findings.seen] == list(range(1, len(findings.seen) + 1))
    assert findings.seen[-1].data.result.draft == draft(4)
    assert findings.refined.score is not None


async def test_what_the_typescript_client_waits_for_survives(
    findings: ClientFindings, package: Path
) -> None:
    del package
    assert findings.typescript == draft(4)


async def test_no_submission_is_lost_or_doubled(findings: ClientFindings) -> None:
    submissions = 2 + (3 if findings.typescript else 0)
    assert findings.statuses == ["succeeded"] * submissions
