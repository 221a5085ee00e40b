"""A failover repeats no call, whether the old primary is dead or only replaced."""

import asyncio
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.contract.errors import Unavailable
from app.local.embedded import EmbeddedRedis
from app.settings import Settings
from app.store import Store, open_store, open_worker_store
from app.store.redis.connection import until_answered
from app.store.state import Accepted
from tests.e2e.running_service import TERMINAL, RunningService, running_service
from tests.faults.sentinel import HOST, replicated_servers, sentinel_cluster
from tests.store.store_harness import ListQueue, claim, new, recorded, step
from tests.waiting import TIMEOUT_S

pytestmark = pytest.mark.long

REFINEMENTS = 12


async def submitted(service: RunningService, number: int, codes: Counter[int]) -> str:
    """Submit as a client does: again after a 503, with the same key."""
    body = {"task": f"Explain refund {number}.", "max_iterations": 3, "threshold": 1.0}
    while True:
        headers = {"Idempotency-Key": f"key-{number}"}
        answer = await service.client.post("/v1/refinements", json=body, headers=headers)
        codes[answer.status_code] += 1
        if answer.status_code == 202:
            return str(answer.json()["id"])
        assert "retry-after" in answer.headers
        await asyncio.sleep(0.2)


async def statuses(service: RunningService, ids: list[str]) -> Counter[str]:
    answers = [await service.client.get(f"/v1/refinements/{it}") for it in ids]
    return Counter(
        answer.json()["status"] if answer.status_code == 200 else str(answer.status_code)
        for answer in answers
    )


def is_sound(events: list[dict[str, Any]]) -> bool:
    """Whether the numbers have no gap, no step is journaled twice, and only the last event ends."""
    steps = Counter(it["data"]["key"] for it in events if it["type"] == "step.completed")
    return (
        [it["event"] for it in events] == [*range(1, len(events) + 1)]
        and set(steps.values()) == {1}
        and [it["type"] for it in events].index("refinement.completed") == len(events) - 1
    )


async def test_refinements_go_on_when_their_primary_is_replaced_and_no_call_is_repeated(
    tmp_path: Path,
) -> None:
    with sentinel_cluster(tmp_path / "redis") as redis:

        @contextmanager
        def route(_redis: EmbeddedRedis) -> Iterator[str]:
            yield redis.url

        async with running_service(tmp_path, route=route, redis_timeout_s=5, lease_s=60) as service:
            # For a second or two the old primary takes writes that are lost. One that begins
            # and ends within that time is made again: six calls take longer.
            service.models.latency_s = 1.0
            codes: Counter[int] = Counter()
            ids = [await submitted(service, number, codes) for number in range(REFINEMENTS)]
            # A claim can be lost like every write, and then its first call is repeated.
            calls = service.models.counts.keys
            await service.until(lambda: all(any(it in key for key in calls) for it in ids))
            failing_over = asyncio.get_running_loop().run_in_executor(None, redis.demote)
            await failing_over
            await submitted(service, REFINEMENTS, codes)  # may be lost: no replica had to have it
            async with asyncio.timeout(TIMEOUT_S):
                while not set(found := await statuses(service, ids)) <= TERMINAL:  # noqa: ASYNC110
                    await asyncio.sleep(0.2)
            for refinement_id in ids:
                assert is_sound(await service.events(refinement_id))
        assert found == {"succeeded": REFINEMENTS}
        assert set(codes) <= {202, 503}
        repeated = [key for key, count in calls.items() if count > 1]
        assert [key for key in repeated if any(it in key for it in ids)] == []


async def test_what_was_acknowledged_with_replicas_is_there_after_the_primary_died(
    tmp_path: Path,
) -> None:
    with sentinel_cluster(tmp_path) as redis:
        settings = Settings(redis_url=redis.url, redis_timeout_s=5, redis_replicas=1)
        async with (
            open_store(settings, ListQueue()) as store,
            open_worker_store(settings, ListQueue(), "worker-1") as worker,
        ):
            held = await claim(worker, (await acknowledged(store, "before")).id)
            dying = asyncio.get_running_loop().run_in_executor(None, redis.kill_primary)
            for number in range(20):
                append = partial(held.journal.append, [step(str(number))])
                await until_answered(append, held.id)
                await asyncio.sleep(0.1)
            await dying
            assert len(await recorded(worker, held.id)) == 2 + 20
            assert (await acknowledged(store, "before")).replayed


async def test_a_submission_is_acknowledged_once_a_replica_has_it(tmp_path: Path) -> None:
    with replicated_servers(tmp_path) as (primary, replica):
        url = f"redis://{HOST}:{primary.port}"
        settings = Settings(redis_url=url, redis_timeout_s=60, redis_replicas=1)
        async with open_store(settings, ListQueue()) as store:
            await acknowledged(store, "before")
            assert replica.process is not None
            replica.process.send_signal(signal.SIGSTOP)
            try:
                for _ in range(2):  # the second finds the record of the first, and writes nothing
                    with pytest.raises(Unavailable, match="refuses writes"):
                        await store.create(new(), "during")
                assert await listed(store) == 2  # reads need no replica
            finally:
                replica.process.send_signal(signal.SIGCONT)
            assert (await acknowledged(store, "during")).replayed
            assert await listed(store) == 2


async def acknowledged(store: Store, key: str) -> Accepted:
    while True:
        with suppress(Unavailable):
            return await store.create(new(), key)


async def listed(store: Store) -> int:
    return len((await store.page("default")).data)


async def test_a_replica_is_no_redis_to_start_with(tmp_path: Path) -> None:
    with replicated_servers(tmp_path) as (_, replica):
        settings = Settings(redis_url=f"redis://{HOST}:{replica.port}", redis_timeout_s=60)
        with pytest.raises(Unavailable) as refused:
            async with open_store(settings, ListQueue()):
                pass
    assert "this Redis is a replica" in str(refused.value.__cause__)
