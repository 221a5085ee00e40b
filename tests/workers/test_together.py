"""Strategies side by side: one journal, no order between the parts."""

import asyncio

import pytest

from app.contract.requests import RefinementRequest
from app.contract.status import Status
from tests.waiting import TIMEOUT_S
from tests.workers.refinement_harness import RefinementHarness, ScriptedAnswers, verdict
from workers.engine.moves import Together, within
from workers.engine.pipeline import strategy_for
from workers.engine.prompts import Judge
from workers.engine.search import Outcome
from workers.models.port import ModelCall, ModelError
from workers.play.driver import Driver
from workers.play.executor import StepExecutor
from workers.play.journal import replay_of
from workers.validators.running import compile_validators

REQUEST = RefinementRequest(task="Explain refunds.", max_iterations=2)


async def halves() -> Outcome:
    """Play the same strategy twice, side by side, and return the better half."""
    parts = tuple(within(name, strategy_for(REQUEST, "482913")) for name in ("left", "right"))
    outcomes = await Together("halves", parts)
    return max(outcomes, key=lambda outcome: outcome.best.rank)  # type: ignore[no-any-return]


async def drive(
    harness: RefinementHarness, refinement_id: str, models: ScriptedAnswers, nonce: str
) -> None:
    """Claim the refinement and play `halves` as its strategy."""
    store = harness.worker_store
    claimed = await store.claim(refinement_id, f"{refinement_id}-{nonce}", nonce)
    assert claimed is not None
    loaded = await store.load(refinement_id)
    submitted, events = loaded.submitted, loaded.events
    performer = StepExecutor(refinement_id, models, submitted.models, compile_validators(()))
    play = halves
    driver = Driver(play, submitted, replay_of(events), performer, store.journal(claimed), claimed)
    try:
        await driver.play()
    except asyncio.CancelledError:
        await store.hand_back(refinement_id, claimed.nonce)


async def all_begun(models: ScriptedAnswers, calls: int) -> None:
    """Return once that many calls have begun."""
    async with asyncio.timeout(TIMEOUT_S):
        while len(models.calls) < calls:  # noqa: ASYNC110 - the models are a plain function
            await asyncio.sleep(0.01)


def answering(*held: str) -> tuple[ScriptedAnswers, asyncio.Event]:
    """Return models whose calls `held` wait until the event is set."""
    go_on = asyncio.Event()

    async def answer(key: str, call: ModelCall) -> str:
        if key in held:
            await go_on.wait()
        if isinstance(call.prompt_request, Judge):
            return verdict(0.9 if key.startswith("right") else 0.95, call)
        return f"the draft of {key}"

    return ScriptedAnswers(answer), go_on


async def test_parts_are_under_way_at_once(harness: RefinementHarness) -> None:
    refinement_id = await harness.submit()
    models, go_on = answering("left/iterations/1/draft", "right/iterations/1/draft")
    playing = asyncio.create_task(drive(harness, refinement_id, models, "1"))
    await all_begun(models, 2)
    phase = (await harness.snapshot(refinement_id)).phase
    assert phase == ("left/iterations/1/draft", "right/iterations/1/draft")
    go_on.set()
    await playing
    ended = await harness.snapshot(refinement_id)
    assert ended.result is not None
    assert ended.result.draft == "the draft of left/iterations/1/draft"


@pytest.mark.parametrize("slow", ["left", "right"])
async def test_replay_does_not_depend_on_the_order_of_arrival(
    harness: RefinementHarness, slow: str
) -> None:
    refinement_id = await harness.submit()
    models, go_on = answering(f"{slow}/iterations/1/critique")
    playing = asyncio.create_task(drive(harness, refinement_id, models, "1"))
    await all_begun(models, 4)
    while (await harness.snapshot(refinement_id)).usage.calls < 3:  # noqa: ASYNC110 - not ours
        await asyncio.sleep(0.01)
    playing.cancel()
    await playing
    go_on.set()
    await drive(harness, refinement_id, models, "2")
    ended = await harness.snapshot(refinement_id)
    assert (ended.status, ended.usage.calls) == (Status.SUCCEEDED, 4)
    repeated = [key for key, calls in models.calls.items() if calls > 1]
    assert repeated == [f"{slow}/iterations/1/critique"]


async def test_a_part_that_fails_fails_the_whole_after_the_others_are_done(
    harness: RefinementHarness,
) -> None:
    refinement_id = await harness.submit()
    models, _ = answering()

    async def answer(key: str, call: ModelCall) -> str:
        if key == "left/iterations/1/draft":
            raise ModelError("gone")
        return await models.answer(key, call)

    await drive(harness, refinement_id, ScriptedAnswers(answer), "1")
    ended = await harness.snapshot(refinement_id)
    assert ended.status is Status.FAILED
    assert [it.path for it in ended.scores] == ["right/iterations/1"]
