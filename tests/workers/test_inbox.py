"""Dequeuing: what was moved is run or put back, whatever happens in between."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.workers.rq_queue import INTERMEDIATE, LIST, NAME, desk_at, until
from workers.rq.dequeue import Dequeuer
from workers.rq.registry import RqRegistry
from workers.rq.worker import CoroutineWorker, persistent_client, single_try_client


@pytest.fixture
async def inbox(redis_url: str) -> AsyncIterator[Dequeuer]:
    """An inbox that looks for stranded jobs each time."""
    async with (
        persistent_client(redis_url, "inbox") as noting,
        single_try_client(redis_url, "inbox") as moving,
    ):
        worker = CoroutineWorker(NAME, redis_url, {}, concurrency=1, grace_s=1)
        yield Dequeuer(worker.queues[0], moving, RqRegistry(worker, noting), look_every_s=0)


async def _taken(inbox: Dequeuer, room: int = 10) -> list[str]:
    return [job.id for job in await inbox.take(room)]


async def test_a_job_stays_in_the_intermediate_list_until_it_is_noted_as_started(
    redis_url: str, inbox: Dequeuer
) -> None:
    with desk_at(redis_url) as desk:
        desk.enqueue(["ref_1", "ref_2"])
        assert await _taken(inbox) == ["ref_1-1"]
        assert desk.client.lrange(INTERMEDIATE, 0, -1) == [b"ref_1-1"]
        assert desk.waiting() == ["ref_2-1"]


async def test_once_more_jobs_are_known_to_wait_they_come_together(
    redis_url: str, inbox: Dequeuer
) -> None:
    with desk_at(redis_url) as desk:
        desk.enqueue(f"ref_{number}" for number in range(6))
        assert await _taken(inbox) == ["ref_0-1"]
        assert await _taken(inbox, room=3) == ["ref_1-1", "ref_2-1", "ref_3-1"]
        assert not inbox.is_empty


async def test_a_job_that_nobody_started_is_taken_at_the_second_look(
    redis_url: str, inbox: Dequeuer
) -> None:
    with desk_at(redis_url) as desk:
        desk.enqueue(["ref_lost"])
        desk.client.lmove(LIST, INTERMEDIATE)
        assert await _taken(inbox) == []
        assert await _taken(inbox) == ["ref_lost-1"]


async def test_a_job_that_is_started_between_two_looks_is_left_alone(
    redis_url: str, inbox: Dequeuer
) -> None:
    with desk_at(redis_url) as desk:
        desk.enqueue(["ref_others"])
        desk.client.lmove(LIST, INTERMEDIATE)
        assert await _taken(inbox) == []
        desk.client.lrem(INTERMEDIATE, 1, "ref_others-1")
        assert await _taken(inbox) == []


async def test_a_wait_for_jobs_can_be_interrupted(redis_url: str) -> None:
    async with (
        persistent_client(redis_url, "inbox") as other,
        single_try_client(redis_url, "inbox") as moving,
    ):
        worker = CoroutineWorker(NAME, redis_url, {}, concurrency=1, grace_s=1)
        inbox = Dequeuer(worker.queues[0], moving, RqRegistry(worker, other), block_s=3600)
        taking = asyncio.create_task(inbox.take(1))
        with desk_at(redis_url) as desk:
            await until(lambda: desk.client.info("clients")["blocked_clients"])
        await inbox.interrupt(other)
        assert await taking == []  # a wait of its own end is a TimeoutError


async def test_jobs_are_put_back_in_front_and_in_order(redis_url: str, inbox: Dequeuer) -> None:
    with desk_at(redis_url) as desk:
        desk.enqueue(f"ref_{number}" for number in range(5))
        await inbox.take(1)
        jobs = await inbox.take(3)
        await inbox.put_back(jobs)
        assert desk.waiting() == ["ref_1-1", "ref_2-1", "ref_3-1", "ref_4-1"]
        assert desk.client.lrange(INTERMEDIATE, 0, -1) == [b"ref_0-1"]


async def test_an_empty_queue_is_found_empty(redis_url: str, inbox: Dequeuer) -> None:
    assert await _taken(inbox) == []
    assert inbox.is_empty
    with desk_at(redis_url) as desk:
        desk.enqueue(["ref_1"])
        assert await _taken(inbox, room=1) == ["ref_1-1"]
    assert not inbox.is_empty  # there was no room to find out
