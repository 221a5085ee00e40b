"""Those who wait take turns by owner."""

import asyncio

from tests.waiting import TIMEOUT_S
from workers.children.turns import Turns


async def test_whoever_asks_for_much_waits_while_others_have_their_turn() -> None:
    turns, order = Turns(), list[str]()

    async def ask(owner: str) -> None:
        async with turns.turn(owner):
            order.append(owner)
            await asyncio.sleep(0)

    await asyncio.gather(*map(ask, ("a", "a", "a", "a", "b", "c", "b")))
    assert order == ["a", "a", "b", "c", "a", "b", "a"]


async def test_a_turn_that_is_given_up_goes_to_the_next() -> None:
    turns = Turns()

    async def hold(owner: str) -> str:
        async with turns.turn(owner):
            await asyncio.sleep(0.01)
        return owner

    first, second, third = (asyncio.create_task(hold(it)) for it in "abc")
    await asyncio.sleep(0)
    second.cancel()
    assert [await asyncio.wait_for(it, TIMEOUT_S) for it in (first, third)] == ["a", "c"]
    assert await asyncio.wait_for(hold("d"), TIMEOUT_S) == "d"
