import asyncio

import pytest

from app.contract.judgement import Usage
from tests.models.calls import call
from workers.models.port import ModelCall, ModelError, ModelRefused, ModelReply
from workers.models.scripted import Scripted, in_turn


async def test_says_its_lines_in_turn_and_refuses_a_call_too_many() -> None:
    priced = ModelReply("two", "gpt", Usage(calls=1, input_tokens=5, cost_usd=0.1))
    model = Scripted(in_turn("one", priced))
    assert (await model.complete(call())).text == "one"
    assert await model.complete(call()) is priced
    with pytest.raises(ModelRefused, match="2 replies"):
        await model.complete(call())
    assert len(model.calls) == 3


async def test_raises_an_error_that_is_in_the_script() -> None:
    model = Scripted(in_turn(ModelError("down")))
    with pytest.raises(ModelError, match="down"):
        await model.complete(call())


async def test_a_script_may_wait() -> None:
    cue = asyncio.Event()

    async def script(asked: ModelCall) -> str:
        await cue.wait()
        return f"heard {asked.key}"

    waiting = asyncio.create_task(Scripted(script).complete(call()))
    cue.set()
    assert (await waiting).text == "heard ref_1/iterations/1/draft"
