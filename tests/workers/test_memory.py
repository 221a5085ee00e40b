"""What an ended refinement leaves in the worker's memory."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from tests.workers.refinement_harness import RefinementHarness, ScriptedAnswers, scores
from workers.models.port import ModelCall
from workers.play.driver import Driver
from workers.play.refinements import Refinements


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Keep the garbage collector from doing what counting references should."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
async def test_what_an_ended_refinement_held_is_freed_without_the_collector(
    harness: RefinementHarness,
) -> None:
    models = scores(0.4, 0.9)
    refinement_id = await harness.submit()
    drivers: list[weakref.ref[Driver]] = []

    async def answer(key: str, call: ModelCall) -> str:
        drivers.append(weakref.ref(worker.held[refinement_id].driver))
        return await models.answer(key, call)

    worker: Refinements = harness.worker(ScriptedAnswers(answer))
    await harness.deliver(worker, refinement_id)
    await asyncio.sleep(0)
    assert [driver() for driver in drivers] == [None] * 4
