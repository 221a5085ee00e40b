"""Models that stand in for others: what is journaled, and that a kill changes nothing."""

import asyncio

from app.contract.events import StepCompleted, StepFailed
from app.contract.models import ModelChoice
from app.contract.status import Status
from tests.workers.refinement_harness import (
    TOKENS,
    RefinementHarness,
    ScriptedAnswers,
    away,
    scores,
)
from tests.workers.test_kills import record
from workers.models.port import ModelCall, ModelError, ReplyCutOff

CHOICE = ModelChoice(model="first:x", fallbacks=("second:x",), max_output_tokens=100)


def first_is_down() -> ScriptedAnswers:
    """Models of which the first never answers."""
    models = scores(0.4, 0.9)

    async def answer(key: str, call: ModelCall) -> str:
        if call.model == "first:x":
            await asyncio.sleep(0)
            raise ModelError("down")
        return await models.answer(key.partition(";")[0], call)

    return ScriptedAnswers(answer)


async def test_the_entry_names_who_answered_and_who_did_not(harness: RefinementHarness) -> None:
    refinement_id = await harness.submit(CHOICE)
    ended = await harness.play(refinement_id, first_is_down())
    assert (ended.status, ended.outcome) == (Status.SUCCEEDED, "passed")
    data = [event.data for event in await harness.events(refinement_id)]
    steps = [it for it in data if isinstance(it, StepCompleted)]
    assert len(steps) == 4
    assert {it.model for it in steps} == {"second:x"}
    assert {(one.model, one.code) for it in steps for one in it.tried} == {
        ("first:x", "model_unavailable")
    }


async def test_a_step_fails_when_no_model_answers(harness: RefinementHarness) -> None:
    async def answer(key: str, call: ModelCall) -> str:
        raise ModelError(f"{call.model[0]} is down")

    refinement_id = await harness.submit(CHOICE)
    ended = await harness.play(refinement_id, ScriptedAnswers(answer))
    assert ended.error is not None
    assert ended.error.code == "model_unavailable"
    (failed,) = [
        it.data for it in await harness.events(refinement_id) if isinstance(it.data, StepFailed)
    ]
    assert failed.detail == "first:x: f is down; second:x: s is down"


async def test_what_failed_for_good_is_not_paid_again_while_a_fallback_is_waited_for(
    harness: RefinementHarness,
) -> None:
    models, waits = scores(0.9), [away(0.01, "second:x", is_open=False) for _ in range(3)]

    async def answer(key: str, call: ModelCall) -> str:
        if call.model == "first:x":
            raise ReplyCutOff("too long", "The beg", usage=TOKENS)
        if waits:
            raise waits.pop()
        return await models.answer(key.partition(";")[0], call)

    refinement_id = await harness.submit(CHOICE)
    asked = ScriptedAnswers(answer)
    ended = await harness.play(refinement_id, asked)
    first = "iterations/1/draft"
    assert (asked.calls[first], asked.calls[f"{first};model=second:x"]) == (1, 4)
    assert (ended.outcome, ended.usage.calls) == ("passed", 4)
    steps = [it.data for it in await harness.events(refinement_id)]
    (tried,) = {it.tried for it in steps if isinstance(it, StepCompleted) if it.key == first}
    assert [one.model for one in tried] == ["first:x"]


async def test_killed_at_any_append_it_ends_as_if_it_had_not_been(
    harness: RefinementHarness,
) -> None:
    undisturbed = await harness.submit(CHOICE)
    await harness.play(undisturbed, first_is_down())
    expected = await record(harness, undisturbed)
    dies_at, is_killed = 0, True
    while is_killed:
        dies_at += 1
        refinement_id, models = await harness.submit(CHOICE), first_is_down()
        is_killed = await harness.play_and_die(refinement_id, models, dies_at, after=True)
        await harness.play(refinement_id, models, "second")
        assert await record(harness, refinement_id) == expected, f"killed at append {dies_at}"
    assert dies_at > 2


async def test_the_budget_reserves_the_dearest_of_those_who_may_answer(
    harness: RefinementHarness,
) -> None:
    cheap = CHOICE.model_copy(update={"model": "offline:editor", "fallbacks": ()})
    limits = {"max_tokens": 100, "patience": 9}
    free = await harness.play(await harness.submit(cheap, stop=limits), scores(0.9))
    assert free.status is Status.SUCCEEDED
    dear = cheap.model_copy(update={"fallbacks": ("second:x",)})
    models = scores(0.9)
    refused = await harness.play(await harness.submit(dear, stop=limits), models)
    assert (refused.status, models.calls.total()) == (Status.FAILED, 0)
