"""`hone top`: what goes on in a service, and what it costs to look."""

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from redis import Redis
from rich.console import Console

from app.cli.top import page
from app.contract.offers import ModelLimit, OpenBreaker
from app.settings import Settings
from app.store import (
    LiveWorker,
    Overview,
    Store,
    WorkerStore,
    keys,
    open_store,
    open_worker_store,
)
from app.store.inspection import MOST_TENANTS
from tests.cli.conftest import Run
from tests.store.store_harness import MODEL, ListQueue, park, paused, started, submit
from tests.waiting import TIMEOUT_S

Seed = Callable[[Store, WorkerStore], Awaitable[Any]]


def seeded(redis_url: str, seed: Seed) -> Any:
    """Return what `seed` returns for the two sides of a store."""

    async def work() -> Any:
        settings, queue = Settings(redis_url=redis_url), ListQueue()
        async with (
            open_store(settings, queue) as store,
            open_worker_store(settings, queue, "worker-1") as worker,
        ):
            return await seed(store, worker)

    return asyncio.run(work())


async def _one_of_each(store: Store, worker: WorkerStore) -> list[str]:
    held = await started(store, worker)
    await park(await started(store, worker))
    await paused(store, worker)
    await submit(store, "acme")
    return [held.id]


def looked(hone: Run, redis_url: str, *options: str) -> dict[str, Any]:
    done = hone("top", "--json", *options, HONE_REDIS_URL=redis_url)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_it_shows_workers_models_and_the_oldest_refinements(hone: Run, redis_url: str) -> None:
    [held] = seeded(redis_url, _one_of_each)
    with Redis.from_url(redis_url) as redis:
        redis.hset(keys.SLOTS, "worker-1", "7")
        redis.hset(keys.TENANTS, "acme", "{}")
        redis.hset("rq:worker:worker-1", "hone_release", "0.1.0")
    found = looked(hone, redis_url)
    assert found["counts"] == {"queued": 1, "running": 2, "paused": 1, "canceling": 0}
    assert found["parked"] == {MODEL: 1}
    [worker] = found["workers"]
    assert (worker["name"], worker["release"]) == ("worker-1", "0.1.0")
    assert (worker["holds"], worker["free"]) == (1, 7)
    assert 0 < worker["lease_s"] <= 5
    first, second, third, last = found["oldest"]
    assert (first["id"], first["worker"], first["waits_for"]) == (held, "worker-1", [])
    assert (second["status"], second["waits_for"]) == ("running", [MODEL])
    assert (third["status"], third["waits_for"]) == ("paused", ["review"])
    assert (last["status"], last["tenant"]) == ("queued", "acme")
    assert [it["id"] for it in looked(hone, redis_url, "--rows", "1")["oldest"]] == [held]
    shown = hone("top", HONE_REDIS_URL=redis_url, COLUMNS="200").stdout
    for words in ("1 queued", "worker-1", f"waits for {MODEL}", "waits for review", "acme", held):
        assert words in shown


def test_a_service_without_work_says_so(hone: Run, redis_url: str) -> None:
    shown = hone("top", "--once", HONE_REDIS_URL=redis_url).stdout
    assert "0 queued  0 running" in shown
    assert "no worker is running" in shown


def test_a_folder_without_a_service_is_an_error_and_stays_as_it_is(
    hone: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "nothing"
    shown = hone("top", "--once", HONE_DATA_DIR=str(folder), HONE_REDIS_URL="")
    assert shown.exit_code == 1
    assert "no service has its data in" in shown.stderr
    assert not folder.exists()


def test_a_look_costs_the_same_however_many_refinements_there_are(
    hone: Run, redis_url: str
) -> None:
    def commands() -> dict[str, int]:
        with Redis.from_url(redis_url) as redis:
            redis.config_resetstat()
            looked(hone, redis_url, "--rows", "2")
            found: Any = redis.info("commandstats")
            return {name: it["calls"] for name, it in found.items()}

    async def ten(store: Store, worker: WorkerStore) -> None:
        for _ in range(10):
            await started(store, worker)
            await submit(store)

    seeded(redis_url, ten)
    few = commands()
    seeded(redis_url, ten)
    assert commands() == few
    assert not {f"cmdstat_{it}" for it in ("keys", "scan", "sort", "smembers_all")} & few.keys()
    assert sum(few.values()) < 60


def test_the_calls_of_a_worker_that_has_died_are_in_progress_no_more(
    hone: Run, redis_url: str
) -> None:
    with Redis.from_url(redis_url) as redis:
        soon = (time.time() + 60) * 1000
        redis.hset(f"{keys.LIMIT}{MODEL}@f", mapping={"rate": 2, "leased_until": soon})
        redis.hset(f"{keys.LIMIT}{MODEL}@f:workers", mapping={"a": f"3 {soon:.0f}", "b": "9 1"})
        redis.zadd(keys.LIMITS, {f"{MODEL}@f": soon})
    [limit] = looked(hone, redis_url)["limits"]
    assert (limit["calls_per_s"], limit["in_flight"]) == (2, 3)


NOTHING = Overview(
    counts={}, waiting=0, parked={}, workers=(), oldest=(), tenants=1, shown_tenants=1
)
SINCE = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
BREAKER = OpenBreaker(
    reason="unreachable", detail="", since=SINCE, next_probe_at=SINCE + timedelta(30), probes=2
)


def shown(seen: Overview, *limits: ModelLimit) -> list[list[str]]:
    """Return the cells of the lines that are shown."""
    console = Console(width=200)
    with console.capture() as captured:
        console.print(page(seen, limits))
    return [re.split(r"  +", it.strip()) for it in captured.get().splitlines()]


def test_limits_and_breakers_are_shown_with_who_waits_for_them() -> None:
    seen = replace(NOTHING, parked={MODEL: 3, "near:away": 1})
    limited = ModelLimit(name=MODEL, calls_per_s=2.5, in_flight=4, paused_until=SINCE)
    lines = shown(seen, limited, ModelLimit(name="openai", breaker=BREAKER))
    assert [MODEL, "2.5/s", "4", "3", "paused until 09:30:00"] in lines
    assert ["near:away", "1", "waited for"] in lines
    assert "openai" in {it[0] for it in lines}
    assert any("takes no calls since 09:30:00: unreachable" in it[-1] for it in lines)


def test_names_from_elsewhere_cannot_control_the_terminal_and_long_lists_are_cut() -> None:
    worker = LiveWorker("w\x1b[31m", "", "", "", 0, None, 2.0)
    seen = replace(NOTHING, workers=(worker,), tenants=MOST_TENANTS + 1, shown_tenants=MOST_TENANTS)
    text = repr(shown(seen))
    assert "\x1b" not in text
    assert f"of {MOST_TENANTS} of {MOST_TENANTS + 1} tenants" in text
    assert "unknown" in text


def test_on_a_terminal_it_refreshes_until_it_is_interrupted(redis_url: str) -> None:
    own, terminal = pty.openpty()
    command = [sys.executable, "-m", "app.cli", "top", "--every", "0.5"]
    environment = {**os.environ, "HONE_REDIS_URL": redis_url, "TERM": "xterm", "COLUMNS": "150"}
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, env=environment) as process:
        os.close(terminal)
        looks = 0
        while looks < 2:
            looks += os.read(own, 65_536).count(b"no worker is running")
        process.send_signal(signal.SIGINT)
        with suppress(OSError):  # EIO: the process has closed its end
            while os.read(own, 65_536):
                pass
        assert process.wait(TIMEOUT_S) == 0
    os.close(own)
