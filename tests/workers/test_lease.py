"""A worker keeps its lease while its event loop is busy, and loses it when the loop stands."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.workers.rq_queue import until
from workers.play.refinements import MACHINE, Lease, is_gone, new_name

LEASE_S = 0.2


@dataclass
class Renewals:
    """What renews the lease: a list of times, and the news that the next renewals return."""

    at: list[float] = field(default_factory=list)
    read: list[dict[str, int]] = field(default_factory=list)
    news: list[dict[str, int] | Exception] = field(default_factory=list)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Callable[[Mapping[str, int]], Awaitable[dict[str, int]]]]:
        yield self.renew

    async def renew(self, read: Mapping[str, int]) -> dict[str, int]:
        self.at.append(time.monotonic())
        self.read.append(dict(read))
        news = self.news.pop(0) if self.news else {}
        if isinstance(news, Exception):
            raise news
        return news


async def ignore(_refinement_id: str) -> None:
    pass


def fail() -> None:
    raise AssertionError


async def test_a_busy_event_loop_keeps_the_lease() -> None:
    renewals = Renewals()
    async with Lease(renewals.open, LEASE_S, stall_s=60, look=ignore, end_process=fail).kept():
        before = len(renewals.at)
        while len(renewals.at) < before + 5:
            time.sleep(0.01)  # noqa: ASYNC251 - the loop does not turn


async def test_an_event_loop_that_stands_still_loses_the_lease_and_then_the_process() -> None:
    renewals, ended = Renewals(), threading.Event()
    lease = Lease(renewals.open, LEASE_S, stall_s=0.5, look=ignore, end_process=ended.set)
    async with lease.kept():
        await until(lambda: bool(renewals.at))
        ended.wait()  # and the loop does not turn
        before = len(renewals.at)
        ended.clear()
        ended.wait()
        assert len(renewals.at) == before
        await until(lambda: len(renewals.at) > before)


async def test_what_was_looked_at_is_confirmed_and_what_could_not_be_is_not() -> None:
    looked: list[str] = []

    async def look(refinement_id: str) -> None:
        looked.append(refinement_id)
        if refinement_id == "unreadable":
            raise RedisConnectionError("away")

    renewals = Renewals(news=[{"canceled": 7, "unreadable": 8}])
    async with Lease(renewals.open, LEASE_S, stall_s=60, look=look, end_process=fail).kept():
        await until(lambda: {"canceled": 7} in renewals.read)
    assert sorted(looked) == ["canceled", "unreadable"]
    assert {"unreadable": 8} not in renewals.read


@pytest.mark.parametrize("error", [RedisConnectionError("away"), ValueError("a bug")])
async def test_a_renewal_that_fails_is_followed_by_the_next(error: Exception) -> None:
    renewals = Renewals(news=[error, error])
    async with Lease(renewals.open, LEASE_S, stall_s=60, look=ignore, end_process=fail).kept():
        await until(lambda: len(renewals.at) > 4)


async def test_a_loop_that_is_late_is_lagging_until_it_is_on_time() -> None:
    lease = Lease(Renewals().open, LEASE_S, stall_s=60, look=ignore, end_process=fail)
    async with lease.kept():
        await asyncio.sleep(0.1)
        time.sleep(2)  # noqa: ASYNC251
        await until(lambda: lease.is_lagging)
        await until(lambda: not lease.is_lagging)


NAMES_ITSELF = "from workers.play.refinements import new_name; print(new_name())"


def test_a_worker_of_this_machine_is_gone_once_its_process_has_ended() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", NAMES_ITSELF], capture_output=True, check=True, text=True
    ).stdout.strip()
    assert (is_gone(ended), is_gone(f"{ended}-quarantine-3")) == (True, True)
    assert not is_gone(new_name())


def test_a_worker_of_another_machine_is_never_known_to_be_gone() -> None:
    assert not is_gone(new_name().replace(MACHINE, "0" * 8).replace(str(os.getpid()), "4194304"))
    assert not is_gone("a name in another form")
