"""The worker: many jobs at once, nothing lost, nothing left, whatever is in the queue."""

import sys
from collections import Counter
from collections.abc import Callable

import pytest

from tests.workers.rq_queue import (
    INTERMEDIATE,
    LIST,
    Jobs,
    RqInspector,
    open_inspector,
    until,
    working,
)


async def test_two_thousand_jobs_overlap_in_one_process(redis_url: str) -> None:
    jobs = Jobs(held=True)
    with open_inspector(redis_url) as inspector:
        inspector.enqueue(f"ref_{number}" for number in range(2000))
        async with working(redis_url, jobs.refine, concurrency=2000):
            await until(lambda: jobs.in_flight == 2000)
            jobs.let_go.set()
            await until(lambda: len(jobs.ended) == 2000)


async def test_no_more_jobs_run_than_there_are_slots(redis_url: str) -> None:
    jobs = Jobs(held=True)
    with open_inspector(redis_url) as inspector:
        inspector.enqueue(f"ref_{number}" for number in range(10))
        async with working(redis_url, jobs.refine, concurrency=3) as worker:
            await until(lambda: jobs.in_flight == 3)
            assert worker.free_slots == 0
            assert len(inspector.waiting()) == 7
            jobs.let_go.set()
            await until(lambda: len(jobs.ended) == 10)
    assert jobs.most == 3


async def test_a_job_is_called_with_its_id_and_the_refinements(redis_url: str) -> None:
    jobs = Jobs()
    with open_inspector(redis_url) as inspector:
        inspector.enqueue(["ref_1"])
        async with working(redis_url, jobs.refine):
            await until(lambda: jobs.ended)
    assert jobs.calls == [("ref_1-1", "ref_1")]


async def test_jobs_start_in_the_order_of_the_queue(redis_url: str) -> None:
    jobs = Jobs()
    ids = [f"ref_{number}" for number in range(250)]
    with open_inspector(redis_url) as inspector:
        inspector.enqueue(ids)
        async with working(redis_url, jobs.refine, concurrency=1000):
            await until(lambda: len(jobs.ended) == 250)
    assert [refinement_id for _, refinement_id in jobs.calls] == ids


async def test_nothing_is_left_of_jobs_that_have_ended(redis_url: str) -> None:
    jobs = Jobs()
    with open_inspector(redis_url) as inspector:
        inspector.enqueue(f"ref_{number}" for number in range(300))
        async with working(redis_url, jobs.refine):
            await until(lambda: len(jobs.ended) == 300)
        assert inspector.left() == set()


async def test_a_job_that_is_delivered_twice_leaves_nothing_behind(redis_url: str) -> None:
    jobs = Jobs(held=True)
    with open_inspector(redis_url) as inspector:
        inspector.enqueue(["ref_1"])
        inspector.client.rpush(LIST, "ref_1-1")
        async with working(redis_url, jobs.refine):
            await until(lambda: jobs.in_flight == 2)
            jobs.let_go.set()
            await until(lambda: len(jobs.ended) == 2)
        assert inspector.left() == set()


async def test_two_workers_share_a_queue_and_run_every_job_once(redis_url: str) -> None:
    one, other = Jobs(held=True), Jobs(held=True)
    ids = {f"ref_{number}" for number in range(600)}
    with open_inspector(redis_url) as inspector:
        async with (
            working(redis_url, one.refine, concurrency=200),
            working(redis_url, other.refine, concurrency=200),
        ):
            inspector.enqueue(ids)
            await until(lambda: one.in_flight == other.in_flight == 200)
            one.let_go.set()
            other.let_go.set()
            await until(lambda: len(one.ended) + len(other.ended) == 600)
        assert Counter(one.ended + other.ended) == Counter(ids)
        assert inspector.left() == set()


async def test_a_failing_job_is_shown_as_failed_and_the_others_go_on(redis_url: str) -> None:
    jobs = Jobs()

    async def refine(job_id: str, refinement_id: str) -> None:
        if refinement_id == "ref_bad":
            raise LookupError("no such thing")
        await jobs.refine(job_id, refinement_id)

    with open_inspector(redis_url) as inspector:
        inspector.enqueue(["ref_bad", "ref_good"])
        async with working(redis_url, refine):
            await until(lambda: jobs.ended)
        assert inspector.failed.get_job_ids() == ["ref_bad-1"]
        assert "LookupError: no such thing" in inspector.error("ref_bad-1")
        assert 3500 < inspector.client.ttl("rq:job:ref_bad-1") <= 3600
        assert inspector.started.get_job_ids() == []


async def test_a_function_outside_the_table_is_refused_and_never_imported(redis_url: str) -> None:
    jobs = Jobs()
    with open_inspector(redis_url) as inspector:
        inspector.rq.enqueue("this.run", job_id="ref_evil-1")  # importing `this` shows
        inspector.enqueue(["ref_good"])
        async with working(redis_url, jobs.refine):
            await until(lambda: jobs.ended)
        assert inspector.failed.get_job_ids() == ["ref_evil-1"]
        assert "RefusedFunction: unknown function this.run" in inspector.error("ref_evil-1")
    assert "this" not in sys.modules


@pytest.mark.parametrize(
    "data", [b"", b"\x80\x04garbage", b"[]", b'["a", null]', b'[["workers.jobs.refine"], 1, 2, 3]']
)
async def test_a_payload_that_cannot_be_read_fails(redis_url: str, data: bytes) -> None:
    jobs = Jobs()
    with open_inspector(redis_url) as inspector:
        inspector.enqueue(["ref_bad", "ref_good"])
        inspector.client.hset("rq:job:ref_bad-1", "data", data)
        async with working(redis_url, jobs.refine):
            await until(lambda: jobs.ended)
        assert jobs.calls == [("ref_good-1", "ref_good")]
        assert inspector.failed.get_job_ids() == ["ref_bad-1"]
        assert inspector.client.llen(INTERMEDIATE) == 0


def _nothing(inspector: RqInspector) -> None:
    inspector.client.rpush(LIST, "ref_gone-1")


def _no_data(inspector: RqInspector) -> None:
    inspector.client.hset("rq:job:ref_odd-1", "status", "queued")
    inspector.client.rpush(LIST, "ref_odd-1")


def _not_a_hash(inspector: RqInspector) -> None:
    inspector.client.set("rq:job:ref_odd-1", "a string")
    inspector.client.rpush(LIST, "ref_odd-1")


def _bad_date(inspector: RqInspector) -> None:
    inspector.client.hset("rq:job:ref_odd-1", mapping={"data": "[]", "created_at": "yesterday"})
    inspector.client.rpush(LIST, "ref_odd-1")


def _bad_id(inspector: RqInspector) -> None:
    inspector.client.rpush(LIST, b"\xff\xfe", "", "a:b:c", "../../x")


@pytest.mark.parametrize("spoil", [_nothing, _no_data, _not_a_hash, _bad_date, _bad_id])
async def test_garbage_in_the_queue_is_removed(
    redis_url: str, spoil: Callable[[RqInspector], None]
) -> None:
    jobs = Jobs()
    with open_inspector(redis_url) as inspector:
        spoil(inspector)
        inspector.enqueue(["ref_good"])
        async with working(redis_url, jobs.refine):
            await until(lambda: jobs.ended)
        assert inspector.left() == set()


async def test_a_worker_is_idle_when_it_has_room_and_nothing_waits(redis_url: str) -> None:
    jobs = Jobs(held=True)
    with open_inspector(redis_url) as inspector:
        async with working(redis_url, jobs.refine, concurrency=2) as worker:
            await until(worker.is_idle)
            inspector.enqueue(["ref_1"])
            await until(lambda: jobs.in_flight == 1)
            await until(worker.is_idle)
            inspector.enqueue(["ref_2", "ref_3"])
            await until(lambda: jobs.in_flight == 2)
            assert not worker.is_idle()
            jobs.let_go.set()
            await until(worker.is_idle)
    assert len(jobs.ended) == 3
