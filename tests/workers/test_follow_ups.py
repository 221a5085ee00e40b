"""Comparison and further texts under budgets, deadlines and commands."""

import asyncio

from app.contract.status import Status, StopReason
from tests.waiting import TIMEOUT_S
from tests.workers.refinement_harness import TENANT, RefinementHarness, pausing_at, scores
from tests.workers.replay_cases import ORDERED
from tests.workers.scripted_models import followed_up

SUBJECT = ORDERED[:1]


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
