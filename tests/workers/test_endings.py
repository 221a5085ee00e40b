"""However a refinement ends, its result is a judged draft, and what it lacks is said."""

import asyncio
import json
from itertools import count
from typing import Any

import pytest

from app.contract.events import IterationCompleted
from app.contract.snapshot import Snapshot
from app.contract.status import BLOCKING, Status, StopReason
from tests.engine.scripted_replies import plan, revised
from tests.waiting import TIMEOUT_S
from tests.workers.refinement_harness import (
    TENANT,
    RefinementHarness,
    ScriptedAnswers,
    pausing_at,
    scores,
    verdict,
)
from tests.workers.replay_cases import CASES, ReplayCase
from workers.engine.prompts import Judge
from workers.models.port import ModelCall, ModelRefused
from workers.play.journal import MOST_CAVEATS

NO = "no more"


def failing_after(calls: int, case: ReplayCase) -> ScriptedAnswers:
    """Return models of which every call after so many fails for good."""
    models, numbers = case.models(), count()

    async def answer(key: str, call: ModelCall) -> str:
        if next(numbers) >= calls:
            raise ModelRefused(NO)
        return await models.answer(key, call)

    return ScriptedAnswers(answer, outside=models.outside)


def require_an_honest_result(ended: Snapshot, judged: list[IterationCompleted]) -> None:
    assert ended.status in (Status.SUCCEEDED, Status.FAILED)
    assert (ended.result is not None) is bool(judged)
    if ended.result is None:
        return
    assert (ended.result.path, ended.result.sha256) in {(it.path, it.sha256) for it in judged}
    lacking = any(it.code in BLOCKING for it in ended.result.caveats) or ended.result.missing
    assert not (ended.outcome == "passed" and lacking)
    if ended.stop_reason is StopReason.THRESHOLD_MET:
        assert ended.outcome == "passed"


@pytest.mark.long
@pytest.mark.parametrize("kind", CASES)
async def test_whatever_fails_for_good_after_a_draft_was_judged_a_judged_draft_is_the_result(
    harness: RefinementHarness, kind: str
) -> None:
    case, with_a_result = CASES[kind], 0
    for calls in count():
        models = failing_after(calls, case)
        strategy = {**case.request.get("strategy", {}), "kind": kind}
        refinement_id = await harness.submit(
            **{**case.request, "strategy": strategy, "outputs": []}
        )
        await harness.play_on(harness.worker(models, f"{calls}"), refinement_id, case.words)
        ended = await harness.snapshot(refinement_id)
        events = [it.data for it in await harness.events(refinement_id)]
        judged = [it for it in events if isinstance(it, IterationCompleted)]
        require_an_honest_result(ended, judged)
        with_a_result += bool(judged)
        if sum(models.calls.values()) <= calls:
            break
    assert with_a_result


async def test_the_result_of_what_failed_is_the_best_draft_though_an_earlier_one_became_it_again(
    harness: RefinementHarness,
) -> None:
    models = scores(0.7, 0.5, 0.35)

    async def answer(key: str, call: ModelCall) -> str:
        if key == "iterations/4/revise":
            raise ModelRefused(NO)
        return await models.answer(key, call)

    refinement_id = await harness.submit(stop={}, max_iterations=9)
    ended = await harness.play(refinement_id, ScriptedAnswers(answer))
    bests = [
        it.data.best.path
        for it in await harness.events(ended.id)
        if isinstance(it.data, IterationCompleted)
    ]
    assert bests == ["iterations/1", "iterations/2", "iterations/1"]
    assert ended.result is not None
    assert (ended.outcome, ended.result.path) == ("failed", "iterations/1")


async def test_what_failed_says_why_its_result_scored_less_than_another_draft(
    harness: RefinementHarness,
) -> None:
    models = scores(0.6, 0.58)

    async def answer(key: str, call: ModelCall) -> str:
        if key == "iterations/3/revise":
            raise ModelRefused(NO)
        return await models.answer(key, call)

    refinement_id = await harness.submit(stop={}, max_iterations=9)
    ended = await harness.play(refinement_id, ScriptedAnswers(answer))
    assert ended.result is not None
    assert (ended.outcome, ended.result.score) == ("failed", 0.58)
    assert [(it.code, it.path) for it in ended.result.caveats] == [("lower_score", "iterations/1")]


async def test_a_failed_refinement_does_not_pass_because_a_stage_of_it_did(
    harness: RefinementHarness,
) -> None:
    stages = [{"name": "outline"}, {"name": "text"}]

    async def answer(key: str, call: ModelCall) -> str:
        if not key.startswith("stages/outline"):
            raise ModelRefused(NO)
        return verdict(0.9, call) if key.endswith("critique") else "An outline."

    strategy = {"kind": "stepwise", "stages": stages}
    refinement_id = await harness.submit(strategy=strategy)
    ended = await harness.play(refinement_id, ScriptedAnswers(answer))
    assert ended.result is not None
    assert (ended.status, ended.outcome) == (Status.FAILED, "failed")
    assert ended.result.path == "stages/outline/iterations/1"


async def test_what_was_dropped_of_the_replies_about_the_result_is_said(
    harness: RefinementHarness,
) -> None:
    models = scores(0.5, 0.9)

    async def answer(key: str, call: ModelCall) -> str:
        said = await models.answer(key, call)
        if not key.endswith("critique"):
            return said
        odd = [{"kind": f"odd {n}", "message": "It is odd."} for n in range(2)]
        return json.dumps({**json.loads(said), "findings": odd})

    ended = await harness.play(await harness.submit(), ScriptedAnswers(answer))
    assert ended.result is not None
    told = [(it.code, it.path) for it in ended.result.caveats]
    assert told == [("item_dropped", "iterations/2/critique")] * 2
    assert "odd 1" in ended.result.caveats[1].detail
    assert ended.outcome == "passed"


async def test_the_caveats_that_count_go_first_and_there_are_no_more_than_fit(
    harness: RefinementHarness,
) -> None:
    async def answer(key: str, call: ModelCall) -> str:
        if key.startswith("passes/style") and key.endswith("revise"):
            raise ModelRefused(NO)
        if not key.endswith("critique"):
            return "We do refund."
        said = verdict(0.9 if key.startswith("iterations/1") else 0.1, call)
        odd = [{"kind": f"odd {n}", "message": "It is odd."} for n in range(60)]
        return json.dumps({**json.loads(said), "findings": odd})

    passes = [{"focus": "style", "threshold": 0.2}, {"focus": "facts"}]
    refinement_id = await harness.submit(
        draft="We refund.", strategy={"kind": "multi_pass", "passes": passes}
    )
    ended = await harness.play(refinement_id, ScriptedAnswers(answer))
    assert ended.result is not None
    codes = [it.code for it in ended.result.caveats]
    first = ["text_missing", "stage_given_up"]
    assert codes == [*first, *["item_dropped"] * (MOST_CAVEATS - len(first))]


async def replies(key: str, call: ModelCall) -> str:
    """A plan that ends without reaching its goal, texts, and a critic who likes them all."""
    if isinstance(call.prompt_request, Judge):
        return verdict(0.9, call)
    if key == "plan":
        return plan("Think.")
    return revised() if key.endswith("replan") else f"The text of {key}, in a few words."


async def test_a_cancel_before_completion_leaves_what_the_work_lacks(
    harness: RefinementHarness,
) -> None:
    refinement_id = await harness.submit(
        strategy={"kind": "plan_execute"}, review={"when": "before_completion"}
    )
    await harness.play(refinement_id, ScriptedAnswers(replies))
    ended = await harness.store.cancel(TENANT, refinement_id)
    assert (ended.status, ended.outcome) == (Status.CANCELED, "canceled")
    assert ended.result is not None
    assert [it.code for it in ended.result.caveats] == ["goal_not_met"]


PART: dict[str, Any] = {"instructions": "Write it."}
PARTS = {"kind": "nested", "parts": [{"name": "a", **PART}, {"name": "b", **PART}]}
LATER = [{"name": "b"}, {"name": "c"}]
STAGES = {"kind": "stepwise", "stages": [{"name": "a"}, *LATER]}


@pytest.mark.parametrize(
    ("request_", "at", "path", "missing"),
    [
        ({"strategy": PARTS}, "parts/b/iterations/1/critique", "parts/a/iterations/1", ["parts/b"]),
        (
            {"strategy": {"kind": "nested"}, "draft": "# One\n\nIt is.\n\n# Two\n\nIt was."},
            "parts/section-2/iterations/0/critique",
            "iterations/0",
            [],
        ),
        (
            {"strategy": STAGES},
            "stages/b/iterations/1/draft",
            "stages/a/iterations/1",
            ["stages/b", "stages/c"],
        ),
        (
            {"strategy": {"kind": "stepwise", "stages": [{"name": "a", "body": PARTS}, *LATER]}},
            "stages/a/parts/b/iterations/1/critique",
            "stages/a/parts/a/iterations/1",
            ["stages/a/parts/b", "stages/b", "stages/c"],
        ),
    ],
)
async def test_a_cancel_in_the_middle_returns_no_part_as_the_whole(
    harness: RefinementHarness, request_: dict[str, Any], at: str, path: str, missing: list[str]
) -> None:
    async def answer(key: str, call: ModelCall) -> str:
        if key == "iterations/0/critique":
            return verdict(0.2, call)
        return await replies(key, call)

    models, call, _ = pausing_at(at, ScriptedAnswers(answer))
    refinement_id = await harness.submit(**request_)
    worker = harness.worker(models)
    playing = asyncio.create_task(harness.deliver(worker, refinement_id))
    await asyncio.wait_for(call.wait(), TIMEOUT_S)
    judged = 1 if missing else 2
    async with asyncio.timeout(TIMEOUT_S):
        while len((await harness.snapshot(refinement_id)).scores) < judged:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await harness.store.cancel(TENANT, refinement_id)
    await worker.look(refinement_id)
    await playing
    ended = await harness.snapshot(refinement_id)
    assert (ended.status, ended.outcome) == (Status.CANCELED, "canceled")
    assert ended.result is not None
    assert (ended.result.path, list(ended.result.missing)) == (path, missing)
    assert ended.best is not None
    assert ended.best.path == path


@pytest.mark.parametrize("command", ["cancel", "finish"])
@pytest.mark.parametrize("draft", ["We refund.", None])
@pytest.mark.parametrize(("kind", "items"), [("multi_pass", "passes"), ("stepwise", "stages")])
async def test_a_text_judged_as_a_whole_stays_and_one_of_a_part_says_what_does_not_follow_it(
    harness: RefinementHarness, kind: str, items: str, draft: str | None, command: str
) -> None:
    async def answer(key: str, call: ModelCall) -> str:
        if isinstance(call.prompt_request, Judge):
            return verdict(0.7 if "iterations/1/" in key else 0.6, call)
        return f"The text of {key}."

    name = "focus" if kind == "multi_pass" else "name"
    parts = [{name: at, "threshold": 0.95, "max_iterations": 4} for at in ("style", "facts")]
    models, call, _ = pausing_at(f"{items}/style/iterations/2/revise", ScriptedAnswers(answer))
    plan_ = {"kind": kind, items: parts}
    refinement_id = await harness.submit(draft=draft, strategy=plan_)
    worker = harness.worker(models)
    playing = asyncio.create_task(harness.deliver(worker, refinement_id))
    await asyncio.wait_for(call.wait(), TIMEOUT_S)
    await getattr(harness.store, command)(TENANT, refinement_id)
    await worker.look(refinement_id)
    await playing
    ended = await harness.snapshot(refinement_id)
    assert ended.result is not None
    assert ended.best is not None
    assert ended.result.path == ended.best.path
    whole, part = ("iterations/0", ()), (f"{items}/style/iterations/1", (f"{items}/facts",))
    assert (ended.result.path, ended.result.missing) == (whole if draft else part)
    if command == "cancel":
        by_then = ("", "0.60; the threshold is 0.85") if draft else (f", {part[0]},", "0.70")
        said = "It was canceled; the best draft by then{} scored {}."
        assert ended.reason == said.format(*by_then)
