"""What is counted of refinements is what their journals say, whatever has interrupted them."""

from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.contract.events import StepCompleted, StepFailed
from app.contract.judgement import Usage
from app.contract.providers import cost_usd
from app.contract.statistics import NO_USE, ModelUse
from app.contract.status import Status
from app.contract.waiting import Waiting, own_key_name
from tests.store.store_harness import count_ended
from tests.waiting import today
from tests.workers.judging_cases import EVERY
from tests.workers.refinement_harness import (
    TENANT,
    TEST_MODEL,
    RefinementHarness,
    ScriptedAnswers,
    refusing,
)
from tests.workers.test_kills import submitted
from workers.models.port import ModelCall, ModelRefused, ModelWaits
from workers.play.journal import Replay

PRICED = Usage(calls=1, input_tokens=13, output_tokens=5, cached_tokens=2, cost_usd=0.000000123)
UNPRICED = PRICED.model_copy(update={"cost_usd": None})
LOST = Usage(calls=1, input_tokens=7, output_tokens=3)
A_DAY = timedelta(days=1)

Uses = dict[str, ModelUse]


async def counted(harness: RefinementHarness) -> tuple[int, Uses]:
    """Return how many endings were counted, and the use of each model."""
    await count_ended(harness.worker_store)
    day = today()
    *_, days = await harness.store.statistics.days(TENANT, day - A_DAY, day + A_DAY, 1)
    endings, used = 0, defaultdict[str, ModelUse](lambda: NO_USE)
    for cell, number, use in await harness.store.statistics.usage_of(days):
        endings += number if not cell.model else 0
        if cell.model:
            used[cell.model] = used[cell.model].plus(use)
    return endings, dict(used)


async def journaled(harness: RefinementHarness, *ids: str) -> Uses:
    """Return the use of each model by the steps in journals."""
    used = defaultdict[str, ModelUse](lambda: NO_USE)
    for refinement_id in ids:
        for data in (it.data for it in await harness.events(refinement_id)):
            if isinstance(data, StepCompleted | StepFailed) and data.model:
                used[data.model] = used[data.model].plus(ModelUse.of(data.usage))
    return dict(used)


def failing_at(number: int, models: ScriptedAnswers) -> ScriptedAnswers:
    """Return the same models, of whose calls one is refused after it has consumed something."""
    made = 0

    async def answer(key: str, call: ModelCall) -> str:
        nonlocal made
        made += 1
        if made == number:
            raise ModelRefused("no", PRICED)
        return await models.answer(key, call)

    return ScriptedAnswers(answer, outside=models.outside)


@pytest.mark.long
@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("kind", ["iterative", "nested"])
async def test_killed_at_any_append_the_sums_are_those_of_the_journals(
    harness: RefinementHarness, kind: str, after: bool
) -> None:
    case, ids = EVERY[kind], list[str]()
    is_killed = True
    while is_killed:
        models = case.models()
        models.usage = UNPRICED if len(ids) % 3 else PRICED
        ids.append(await submitted(harness, kind, case))
        is_killed = await harness.play_and_die(ids[-1], models, len(ids), case.words, after=after)
        await harness.play_on(harness.worker(models, "second"), ids[-1], case.words)
        assert await counted(harness) == (len(ids), await journaled(harness, *ids))
    assert len(ids) > 5


@pytest.mark.parametrize("fails_at", [1, 2, 3, 4])
async def test_each_ending_of_a_retried_one_adds_what_is_new(
    harness: RefinementHarness, fails_at: int
) -> None:
    case = EVERY["iterative"]
    models = failing_at(fails_at, case.models())
    models.usage = PRICED
    refinement_id = await submitted(harness, "iterative", case)
    await harness.play_on(harness.worker(models), refinement_id)
    assert (await harness.snapshot(refinement_id)).status is Status.FAILED
    assert await counted(harness) == (1, await journaled(harness, refinement_id))
    await harness.store.retry(TENANT, refinement_id)
    await harness.play_on(harness.worker(models, "second"), refinement_id)
    found = await journaled(harness, refinement_id)
    assert found[TEST_MODEL.model].calls == models.calls.total() - 1  # one failed before it began
    assert await counted(harness) == (2, found)


async def test_a_reply_that_broke_off_counts_for_its_model(harness: RefinementHarness) -> None:
    case = EVERY["iterative"]
    broken = ModelWaits(TEST_MODEL.model, "unreachable", 60, "away", is_open=True, usage=LOST)
    models = refusing(replace(case.models(), usage=PRICED), broken)
    refinement_id = await submitted(harness, "iterative", case)
    await harness.deliver(harness.worker(models), refinement_id)
    assert (await harness.snapshot(refinement_id)).waiting
    await harness.store.cancel(TENANT, refinement_id)
    assert await counted(harness) == (1, {TEST_MODEL.model: ModelUse.of(LOST)})


def test_what_a_call_with_a_tenants_own_key_lost_counts_for_the_model() -> None:
    model = "openai:gpt-5-mini"
    recorded = Replay()
    name = own_key_name("acme", model)
    recorded.wait(Waiting(key="a", reason="slow", model=name, until=datetime.now(UTC), lost=LOST))
    assert recorded.used_by_model == {model: ModelUse.of(LOST)}
    assert recorded.spent_usd == cost_usd(model, LOST.input_tokens, LOST.output_tokens) != 0
    recorded.give_up()
    assert recorded.used_by_model == {model: ModelUse.of(LOST)}
