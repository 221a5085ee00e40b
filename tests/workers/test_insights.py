"""What a refinement added to the score is counted once, by the append that ends it."""

from collections.abc import Mapping
from typing import Any

import pytest

from app.contract.judgement import Usage
from app.contract.statistics import Dimension, Key, Sums
from app.contract.status import Status
from tests.workers.refinement_harness import (
    TENANT,
    RefinementHarness,
    ScriptedAnswers,
    scores,
)
from workers.models.port import ModelCall

MODEL = "scripted:test"
PRICED = Usage(calls=1, input_tokens=90, output_tokens=10, cost_usd=0.001)


def priced(*given: float) -> ScriptedAnswers:
    models = scores(*given)
    models.usage = PRICED
    return models


async def counted(harness: RefinementHarness) -> Mapping[Key, Sums]:
    """Return all sums, without the seconds, which nobody foresees."""
    _, sums = await harness.store.statistics.insights(TENANT, None, [*Dimension])
    return {key: of._replace(seconds=0) for key, of in sums.items()}


def of_drafts(changes: tuple[float, ...], kept: tuple[float, ...], calls: int) -> Any:
    """Return what one refinement adds, by hand: a call takes 100 tokens and 0.001 dollars."""
    count, change, gain = len(changes), sum(changes), sum(kept)
    sums = Sums(
        refinements=1,
        cases=count,
        cases_squared=count**2,
        change=change,
        change_squared=change**2,
        change_by_cases=change * count,
        gain=gain,
        gain_squared=gain**2,
        gain_by_cases=gain * count,
        kept=len(kept),
        calls=calls,
        tokens=100 * calls,
        priced=count,
        cost_usd=0.001 * calls,
    )
    return pytest.approx(sums)


OF_TWO_REVISIONS = {
    (Dimension.STRATEGY, "iterative"): of_drafts((0.3,), (0.3,), calls=6),
    (Dimension.STEP, "revision"): of_drafts((0.3, -0.1), (0.3,), calls=4),
    (Dimension.MODEL, MODEL): of_drafts((0.3, -0.1), (0.3,), calls=4),
    (Dimension.CRITIC, MODEL): of_drafts((0.3, -0.1), (0.3,), calls=4),
    (Dimension.CRITERION, "quality"): of_drafts((0.3, -0.1), (0.3,), calls=4),
}
"""Of drafts that score 0.4, 0.7 and 0.6: the second is the result."""


async def test_the_sums_are_those_that_follow_by_hand(harness: RefinementHarness) -> None:
    await harness.play(await harness.submit(), priced(0.4, 0.7, 0.6))
    assert await counted(harness) == OF_TWO_REVISIONS
    await harness.play(await harness.submit(max_iterations=1), priced(0.4))
    sums = await counted(harness)
    both = sums[Dimension.STRATEGY, "iterative"]
    assert (both.refinements, both.cases, both.kept, both.calls) == (2, 2, 1, 8)
    assert sums[Dimension.STEP, "revision"] == OF_TWO_REVISIONS[Dimension.STEP, "revision"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_killed_around_any_append_it_is_counted_once(
    harness: RefinementHarness, after: bool
) -> None:
    dies_at, is_killed, ended = 0, True, 0
    while is_killed:
        dies_at += 1
        models = priced(0.4, 0.7, 0.6)
        refinement_id = await harness.submit()
        is_killed = await harness.play_and_die(refinement_id, models, dies_at, after=after)
        await harness.play_on(harness.worker(models, "second"), refinement_id)
        ended += 1
        by_strategy = (await counted(harness))[Dimension.STRATEGY, "iterative"]
        assert by_strategy.cases == ended
        assert by_strategy.gain == pytest.approx(0.3 * ended)
    assert dies_at > 5


async def test_one_that_failed_counts_once_its_retry_has_succeeded_with_all_that_it_cost(
    harness: RefinementHarness,
) -> None:
    models = priced(0.4, 0.7, 0.6)

    async def answer(key: str, call: ModelCall) -> str:
        return "?" if "/2/critique" in key else await models.answer(key, call)

    refinement_id = await harness.submit()
    failed = await harness.play(refinement_id, ScriptedAnswers(answer, usage=PRICED))
    assert failed.status is Status.FAILED
    assert await counted(harness) == {}
    await harness.store.retry(TENANT, refinement_id)
    await harness.play(refinement_id, models, "second")
    sums = await counted(harness)
    unread = 3
    assert sums[Dimension.STEP, "revision"] == of_drafts((0.3, -0.1), (0.3,), calls=4 + unread)
    assert sums[Dimension.STRATEGY, "iterative"] == of_drafts((0.3,), (0.3,), calls=6 + unread)


async def test_what_was_canceled_counts_nothing(harness: RefinementHarness) -> None:
    refinement_id = await harness.submit()
    models = priced(0.4, 0.7, 0.6)

    async def answer(key: str, call: ModelCall) -> str:
        if key == "iterations/3/revise":
            await harness.store.cancel(TENANT, refinement_id)
        return await models.answer(key, call)

    ended = await harness.play(refinement_id, ScriptedAnswers(answer, usage=PRICED))
    assert ended.status is Status.CANCELED
    assert await counted(harness) == {}


async def test_what_is_not_to_be_learnt_from_counts_nothing(harness: RefinementHarness) -> None:
    ended = await harness.play(await harness.submit(learn=False), priced(0.4, 0.7, 0.6))
    assert ended.status is Status.SUCCEEDED
    assert await counted(harness) == {}


async def test_every_tenant_has_its_own_sums(harness: RefinementHarness) -> None:
    await harness.play(await harness.submit(), priced(0.4, 0.7, 0.6))
    assert (await harness.store.statistics.insights("another", None, [*Dimension]))[1] == {}
