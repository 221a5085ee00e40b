"""Budgets, deadlines, and steps that cannot be done."""

import asyncio
from types import SimpleNamespace
from typing import cast

from app.contract.events import EventType, StepFailed
from app.contract.judgement import Usage
from app.contract.requests import RefinementRequest
from app.contract.status import Status, StopReason
from app.store import Claimed
from tests.waiting import TIMEOUT_S
from tests.workers.refinement_harness import (
    RefinementHarness,
    ScriptedAnswers,
    pausing_at,
    scores,
    verdict,
)
from workers.engine.prompts import Judge
from workers.models.port import ModelCall, ModelError
from workers.play.limits import TimeLimits


class MovedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock is moved."""

    moved_s = 0.0

    def time(self) -> float:
        return super().time() + self.moved_s


def test_what_a_refinement_waits_is_no_part_of_the_seconds_that_it_plays() -> None:
    loop, passed = MovedLoop(), list[str]()
    limits = RefinementRequest.model_validate(
        {"task": "Say it.", "stop": {"max_seconds": 10, "max_wait_seconds": 100}}
    ).limits()

    async def play() -> None:
        claimed = SimpleNamespace(at=None, elapsed_s=0.0, waited_s=0.0, left_s=None)
        time_limits = TimeLimits(cast("Claimed", claimed))
        for waits, seconds in ((True, 50), (False, 9), (True, 49), (False, 0)):
            time_limits.set(limits, passed.append, waits=waits)
            loop.moved_s += seconds
            await asyncio.sleep(0.01)
            assert passed == []
        assert round(time_limits.waited_s()) == 99
        loop.moved_s += 2
        await asyncio.sleep(0.01)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(play())
    assert passed == ["max_seconds"]


COSTLY = Usage(calls=1, input_tokens=500, output_tokens=100, cost_usd=0.0)


async def test_no_call_starts_that_the_budget_might_not_cover(harness: RefinementHarness) -> None:
    models = scores(0.4, 0.5, 0.6, 0.7, 0.8)
    models.usage = COSTLY
    refinement_id = await harness.submit(
        max_iterations=5, stop={"max_tokens": 4_000, "patience": 9}
    )
    ended = await harness.play(refinement_id, models)
    assert (ended.status, ended.stop_reason) == (Status.SUCCEEDED, StopReason.BUDGET_EXHAUSTED)
    spent = ended.usage.input_tokens + ended.usage.output_tokens
    assert 1_200 <= spent <= 4_000
    assert ended.result is not None
    last = (await harness.events(refinement_id))[-2]
    assert last.type is EventType.STOPPING


async def test_a_budget_that_ends_before_a_judgement_fails_and_says_so(
    harness: RefinementHarness,
) -> None:
    refinement_id = await harness.submit(stop={"max_tokens": 100})
    models = scores(0.4)
    ended = await harness.play(refinement_id, models)
    assert (ended.status, ended.stop_reason) == (Status.FAILED, StopReason.ERROR)
    assert ended.error is not None
    assert ended.error.code == "nothing_judged"
    assert not models.calls


async def test_drafts_at_once_are_cut_to_what_the_budget_allows(harness: RefinementHarness) -> None:
    models = scores(0.4, 0.5, 0.6, 0.7)
    refinement_id = await harness.submit(
        strategy={"kind": "best_of_n", "n": 4}, max_iterations=4, stop={"max_tokens": 4_000}
    )
    ended = await harness.play(refinement_id, models)
    assert (ended.status, ended.stop_reason) == (Status.SUCCEEDED, StopReason.BUDGET_EXHAUSTED)
    written = [key for key in models.calls if key.endswith("/draft")]
    assert 1 <= len(written) < 4
    assert len(ended.scores) == len(written)
    steps = [event.data for event in await harness.events(refinement_id)]
    refused = [it.key for it in steps if isinstance(it, StepFailed)]
    assert sorted([*refused, *written]) == [f"iterations/{n}/draft" for n in (1, 2, 3, 4)]


async def test_samples_cut_short_by_the_budget_vote_without_the_others(
    harness: RefinementHarness,
) -> None:
    models = scores()
    strategy = {"kind": "self_consistency", "n": 5}
    stop = {"max_tokens": 1_000}
    refinement_id = await harness.submit(strategy=strategy, max_iterations=5, stop=stop)
    ended = await harness.play(refinement_id, models)
    assert (ended.status, ended.stop_reason) == (Status.SUCCEEDED, StopReason.BUDGET_EXHAUSTED)
    made = len(models.calls)
    assert 1 <= made < 5
    assert [it.score for it in ended.scores] == [round(1 / made, 6) if made > 1 else None] * made


async def test_a_deadline_aborts_the_call_in_flight_and_keeps_the_best(
    harness: RefinementHarness,
) -> None:
    models, _, _ = pausing_at("iterations/2/revise", scores(0.4))
    ended = await harness.play(await harness.submit(stop={"max_seconds": 3}), models)
    assert (ended.status, ended.stop_reason) == (Status.SUCCEEDED, StopReason.DEADLINE)
    assert models.aborted == ["iterations/2/revise"]
    assert ended.result is not None
    assert ended.result.score == 0.4


async def test_a_model_that_cannot_be_reached_fails_the_step_but_not_what_was_judged(
    harness: RefinementHarness,
) -> None:
    async def answer(key: str, call: ModelCall) -> str:
        if key == "iterations/2/revise":
            raise ModelError("the server answered 503 three times", COSTLY)
        return verdict(0.4, call) if isinstance(call.prompt_request, Judge) else "a first draft"

    refinement_id = await harness.submit()
    ended = await harness.play(refinement_id, ScriptedAnswers(answer))
    assert (ended.status, ended.stop_reason) == (Status.FAILED, StopReason.ERROR)
    assert ended.error is not None
    assert ended.error.code == "model_unavailable"
    assert ended.result is not None
    assert (ended.result.draft, ended.result.score) == ("a first draft", 0.4)
    assert ended.usage.input_tokens == 520
    assert EventType.STEP_FAILED in [it.type for it in await harness.events(refinement_id)]


async def test_an_error_of_ours_ends_the_refinement_without_its_details(
    harness: RefinementHarness,
) -> None:
    async def answer(key: str, call: ModelCall) -> str:
        raise ZeroDivisionError("a secret")

    ended = await harness.play(await harness.submit(), ScriptedAnswers(answer))
    assert ended.error is not None
    assert ended.error.code == "internal_error"
    assert "secret" not in ended.error.detail


async def test_one_worker_holds_many_refinements_at_once(harness: RefinementHarness) -> None:
    under_way, all_there = 0, asyncio.Event()

    async def answer(key: str, call: ModelCall) -> str:
        nonlocal under_way
        if isinstance(call.prompt_request, Judge):
            return verdict(0.9, call)
        under_way += 1
        if under_way == 100:
            all_there.set()
        await all_there.wait()
        return "a draft"

    worker = harness.worker(ScriptedAnswers(answer))
    ids = [await harness.submit() for _ in range(100)]
    await asyncio.wait_for(asyncio.gather(*(harness.deliver(worker, it) for it in ids)), TIMEOUT_S)
    assert {(await harness.snapshot(it)).status for it in ids} == {Status.SUCCEEDED}
