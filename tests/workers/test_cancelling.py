"""Tasks that must end do end."""

import asyncio

import pytest

from app.contract.status import RefinementOutcome, Status, StopReason
from workers.play.journal import Ending
from workers.rq import end, heed_cancellation


async def test_a_task_that_swallows_its_cancellation_is_cancelled_again() -> None:
    swallowed = 0

    async def stubborn() -> None:
        nonlocal swallowed
        while swallowed < 3:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                swallowed += 1

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await end([task])
    assert task.done()
    assert swallowed == 3


async def test_tasks_that_failed_or_ended_before_are_none_of_its_business() -> None:
    async def fail() -> None:
        raise LookupError

    failed, ended = asyncio.create_task(fail()), asyncio.create_task(asyncio.sleep(0))
    await asyncio.wait([failed, ended])
    await end([failed, ended])
    assert isinstance(failed.exception(), LookupError)


async def test_a_cancellation_that_was_swallowed_is_heeded_later() -> None:
    async def swallow() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            heed_cancellation()
        raise AssertionError

    task = asyncio.create_task(swallow())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_task_that_was_not_cancelled_goes_on() -> None:
    heed_cancellation()


def test_what_a_cancel_overrules_is_reported_as_canceled() -> None:
    written = Ending.failed("model_error", "It was away.").under(Status.CANCELED)
    assert (written.status, written.outcome) == (Status.CANCELED, RefinementOutcome.CANCELED)
    assert (written.changes["stop_reason"], written.changes["error"]) == (StopReason.CANCELED, None)


def test_what_nothing_overrules_is_reported_as_it_is() -> None:
    failed = Ending.failed("model_error", "It was away.")
    assert failed.under(Status.FAILED) is failed
