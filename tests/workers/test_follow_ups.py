"""Comparison and further texts under budgets, deadlines and commands."""

import asyncio
from typing import Any

import pytest

from app.contract.limits import LimitsChange
from app.contract.status import Status, StopReason
from tests.waiting import TIMEOUT_S
from tests.workers.refinement_harness import TENANT, RefinementHarness, pausing_at, scores
from tests.workers.replay_cases import ORDERED
from tests.workers.scripted_models import followed_up, improving

SUBJECT = ORDERED[:1]
PART = {"name": "one", "instructions": "All of it.", "threshold": 0.95}
NESTED = {"kind": "nested", "parts": [PART], "max_iterations": 1}


async def test_a_finish_leaves_the_texts_in_flight_missing(harness: RefinementHarness) -> None:
    models, call, _ = pausing_at("outputs/subject", followed_up(scores(0.9)))
    refinement_id = await harness.submit(outputs=SUBJECT, compare=True)
    worker = harness.worker(models)
    playing = asyncio.create_task(harness.deliver(worker, refinement_id))
    await asyncio.wait_for(call.wait(), TIMEOUT_S)
    await harness.store.finish(TENANT, refinement_id)
    await worker.look(refinement_id)
    await playing
    ended = await harness.snapshot(refinement_id)
    assert (ended.status, ended.stop_reason) == (Status.SUCCEEDED, StopReason.THRESHOLD_MET)
    assert models.aborted == ["outputs/subject"]
    assert ended.result is not None
    assert (ended.result.outputs, ended.result.missing) == ({}, ("outputs/subject",))
    assert ended.result.comparison is not None


async def test_a_finish_before_it_leaves_no_comparison(harness: RefinementHarness) -> None:
    models, call, _ = pausing_at("compare/1", followed_up(scores(0.4, 0.9)))
    refinement_id = await harness.submit(outputs=SUBJECT, compare=True)
    worker = harness.worker(models)
    playing = asyncio.create_task(harness.deliver(worker, refinement_id))
    await asyncio.wait_for(call.wait(), TIMEOUT_S)
    await harness.store.finish(TENANT, refinement_id)
    await worker.look(refinement_id)
    await playing
    ended = await harness.snapshot(refinement_id)
    assert (ended.status, ended.outcome) == (Status.SUCCEEDED, "passed")
    assert ended.result is not None
    assert (ended.result.score, ended.result.comparison) == (0.9, None)
    assert ended.result.missing == ("outputs/subject",)


async def test_texts_at_once_are_cut_to_what_the_budget_allows(harness: RefinementHarness) -> None:
    ordered = [{"name": f"text-{n}", "instructions": "A subject line."} for n in range(10)]
    refinement_id = await harness.submit(outputs=ordered, stop={"max_tokens": 2_500})
    ended = await harness.play(refinement_id, followed_up(scores(0.9)))
    assert (ended.status, ended.outcome) == (Status.SUCCEEDED, "passed")
    assert ended.result is not None
    made, missing = ended.result.outputs, ended.result.missing
    assert {f"outputs/{name}" for name in made} | {*missing} == {
        f"outputs/text-{n}" for n in range(10)
    }
    assert 2 < len(made) < 10  # judging is reserved for drafts alone
    assert not {f"outputs/{name}" for name in made} & {*missing}


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"outputs": ORDERED}, "passed"),
        ({"outputs": SUBJECT, "strategy": NESTED}, "best_effort"),
    ],
    ids=["a text that failed", "a part that misses its threshold"],
)
async def test_a_change_while_texts_are_written_decides_by_the_threshold_alone(
    harness: RefinementHarness, fields: dict[str, Any], outcome: str
) -> None:
    models, call, go_on = pausing_at("outputs/subject", followed_up(improving(0.5, 0.1)))
    refinement_id = await harness.submit(threshold=0.5, **fields)
    playing = asyncio.create_task(harness.deliver(harness.worker(models), refinement_id))
    await asyncio.wait_for(call.wait(), TIMEOUT_S)
    await harness.store.change(TENANT, refinement_id, LimitsChange(threshold=0.55))
    go_on.set()
    await playing
    ended = await harness.snapshot(refinement_id)
    assert (ended.outcome, ended.threshold) == (outcome, 0.55)
