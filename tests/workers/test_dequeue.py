"""Dequeuing: what was moved is run or put back, whatever happens in between."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis import Redis
from rq.job import Job
from rq.serializers import JSONSerializer

from app.queue import RefinementQueue
from app.settings import Settings
from app.store import open_store
from app.store.redis.committer import Committer
from tests.store.store_harness import new
from tests.workers.rq_queue import INTERMEDIATE, LIST, NAME, open_inspector, source, until
from workers.rq import (
    MOST_AT_ONCE,
    CoroutineWorker,
    Dequeuer,
    RqRegistry,
    persistent_client,
    single_try_client,
)


@pytest.fixture
async def dequeuer(redis_url: str) -> AsyncIterator[Dequeuer]:
    """A dequeuer that looks for stranded jobs each time."""
    async with (
        persistent_client(redis_url, "dequeuer") as noting,
        single_try_client(redis_url, "dequeuer") as moving,
    ):
        worker = CoroutineWorker(NAME, redis_url, {}, concurrency=1, grace_s=1)
        yield Dequeuer(
            worker.queues[0],
            moving,
            RqRegistry(worker, Committer(noting)),
            source(),
            look_every_s=0,
        )


async def _taken(dequeuer: Dequeuer, room: int = 10) -> list[str]:
    return [job.id for job in await dequeuer.dequeue(room)]


async def test_a_job_stays_in_the_intermediate_list_until_it_is_noted_as_started(
    redis_url: str, dequeuer: Dequeuer
) -> None:
    with open_inspector(redis_url) as inspector:
        inspector.enqueue(["ref_1", "ref_2"])
        assert await _taken(dequeuer, room=1) == ["ref_1-1"]
        assert inspector.client.lrange(INTERMEDIATE, 0, -1) == [b"ref_1-1"]
        assert inspector.waiting() == ["ref_2-1"]


async def test_as_many_jobs_come_together_as_there_is_room_for(
    redis_url: str, dequeuer: Dequeuer
) -> None:
    with open_inspector(redis_url) as inspector:
        inspector.enqueue(f"ref_{number}" for number in range(6))
        assert await _taken(dequeuer, room=3) == ["ref_0-1", "ref_1-1", "ref_2-1"]
        assert not dequeuer.is_empty
        assert await _taken(dequeuer, room=9) == ["ref_3-1", "ref_4-1", "ref_5-1"]
        assert dequeuer.is_empty


async def test_a_job_that_was_not_started_is_taken_at_the_second_look(
    redis_url: str, dequeuer: Dequeuer
) -> None:
    with open_inspector(redis_url) as inspector:
        inspector.enqueue(["ref_lost"])
        inspector.client.lmove(LIST, INTERMEDIATE)
        assert await _taken(dequeuer) == []
        assert await _taken(dequeuer) == ["ref_lost-1"]


async def test_a_job_that_is_started_between_two_looks_is_left_alone(
    redis_url: str, dequeuer: Dequeuer
) -> None:
    with open_inspector(redis_url) as inspector:
        inspector.enqueue(["ref_others"])
        inspector.client.lmove(LIST, INTERMEDIATE)
        assert await _taken(dequeuer) == []
        inspector.client.lrem(INTERMEDIATE, 1, "ref_others-1")
        assert await _taken(dequeuer) == []


async def test_a_wait_for_jobs_can_be_interrupted(redis_url: str) -> None:
    async with (
        persistent_client(redis_url, "dequeuer") as other,
        single_try_client(redis_url, "dequeuer") as moving,
    ):
        worker = CoroutineWorker(NAME, redis_url, {}, concurrency=1, grace_s=1)
        dequeuer = Dequeuer(
            worker.queues[0], moving, RqRegistry(worker, Committer(other)), source(), block_s=3600
        )
        taking = asyncio.create_task(dequeuer.dequeue(1))
        with open_inspector(redis_url) as inspector:
            await until(lambda: inspector.client.info("clients")["blocked_clients"])
        await dequeuer.interrupt(other)
        assert await taking == []  # a wait of its own end is a TimeoutError


async def test_jobs_are_put_back_in_front_and_in_order(redis_url: str, dequeuer: Dequeuer) -> None:
    with open_inspector(redis_url) as inspector:
        inspector.enqueue(f"ref_{number}" for number in range(5))
        await dequeuer.dequeue(1)
        jobs = await dequeuer.dequeue(3)
        await dequeuer.put_back(jobs)
        assert inspector.waiting() == ["ref_1-1", "ref_2-1", "ref_3-1", "ref_4-1"]
        assert inspector.client.lrange(INTERMEDIATE, 0, -1) == [b"ref_0-1"]


async def test_what_stands_in_line_becomes_a_job_as_rq_writes_it(
    redis_url: str, dequeuer: Dequeuer
) -> None:
    with open_inspector(redis_url) as inspector:
        async with open_store(Settings(redis_url=redis_url), RefinementQueue(NAME)) as store:
            refinement_id = (await store.create(new(), None)).id
        assert inspector.waiting() == []
        (job,) = await dequeuer.dequeue(1)
        assert (job.id, job.args) == (f"{refinement_id}-1", [refinement_id])
        admitted = fields_of(inspector.client, job.id)
        inspector.enqueue([refinement_id])
        assert admitted == fields_of(inspector.client, job.id)


async def test_more_than_come_at_once_come_one_after_the_other_without_a_wait(
    redis_url: str, dequeuer: Dequeuer
) -> None:
    async with open_store(Settings(redis_url=redis_url), RefinementQueue(NAME)) as store:
        await asyncio.gather(*(store.create(new(), None) for _ in range(MOST_AT_ONCE + 10)))
    assert len(await dequeuer.dequeue(200)) == MOST_AT_ONCE
    assert not dequeuer.is_empty  # the others stand in line: it must not wait for them to be pushed
    assert len(await dequeuer.dequeue(150)) == 10
    assert dequeuer.is_empty


def fields_of(client: Redis, job_id: str) -> dict[str, Any]:
    """Return the fields of a job as RQ reads them, without the times."""
    fields = Job.fetch(job_id, client, JSONSerializer).to_dict()
    return {name: it for name, it in fields.items() if not name.endswith("_at")}


async def test_an_empty_queue_is_found_empty(redis_url: str, dequeuer: Dequeuer) -> None:
    assert await _taken(dequeuer) == []
    assert dequeuer.is_empty
    with open_inspector(redis_url) as inspector:
        inspector.enqueue(["ref_1"])
        assert await _taken(dequeuer, room=1) == ["ref_1-1"]
    assert not dequeuer.is_empty  # there was no room to find out
