"""Deadlines that share a timer end blocks as `asyncio.timeout_at` does."""

import asyncio

import pytest

from workers.outbound.deadlines import Deadline, Deadlines


def now() -> float:
    return asyncio.get_running_loop().time()


async def sleeper(deadlines: Deadlines, after_s: float) -> str:
    """Sleep until a deadline."""
    try:
        with Deadline(deadlines, now() + after_s):
            await asyncio.sleep(600)
    except TimeoutError:
        return "timed out"
    return "slept"


async def test_blocks_end_in_the_order_of_their_deadlines_whatever_order_they_began_in() -> None:
    deadlines, ended = Deadlines(), []

    async def ends(after_s: float) -> None:
        assert await sleeper(deadlines, after_s) == "timed out"
        ended.append(after_s)

    await asyncio.gather(ends(0.3), ends(0.1), ends(0.2), ends(-1.0))
    assert ended == [-1.0, 0.1, 0.2, 0.3]


async def test_a_block_that_ends_before_its_deadline_leaves_nothing_behind() -> None:
    deadlines = Deadlines()
    for _ in range(2):
        with Deadline(deadlines, now() + 0.05):
            await asyncio.sleep(0)
        await asyncio.sleep(0.1)  # a cancellation would come here
    assert await sleeper(deadlines, 0.01) == "timed out"


async def test_a_deadline_may_be_put_off_and_others_keep_theirs() -> None:
    deadlines = Deadlines()
    other = asyncio.create_task(sleeper(deadlines, 0.1))
    with Deadline(deadlines, now() + 0.05) as deadline:
        deadline.when = now() + 60
        await asyncio.sleep(0.2)
    assert await other == "timed out"


async def test_a_block_that_is_cancelled_from_outside_is_cancelled_even_at_its_deadline() -> None:
    deadlines = Deadlines()

    async def block() -> None:
        with Deadline(deadlines, now() - 1):
            await asyncio.sleep(600)

    task = asyncio.create_task(block())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_at_the_deadline_is_not_taken_for_the_deadline() -> None:
    deadlines = Deadlines()

    async def block() -> None:
        with Deadline(deadlines, now() + 0.01):
            try:
                await asyncio.sleep(600)
            finally:
                raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await block()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_deadline_inside_another_ends_only_its_own_block() -> None:
    deadlines = Deadlines()
    with Deadline(deadlines, now() + 60):
        assert await sleeper(deadlines, 0.01) == "timed out"
    with pytest.raises(TimeoutError), Deadline(deadlines, now() + 0.01):
        await sleeper(deadlines, 60)
