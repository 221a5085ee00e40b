"""Samples and panels under a real driver: budgets, journal, replay."""

import json
from statistics import median
from typing import Any

from app.contract.events import IterationCompleted, StepCompleted, StepFailed
from app.contract.status import Status, StopReason
from tests.workers.refinement_harness import RefinementHarness, ScriptedAnswers, verdict
from workers.engine.prompts import Judge
from workers.models.port import ModelCall, ModelError

PANEL: dict[str, Any] = {"panel": [{"name": "reader"}, {"name": "lawyer", "adversarial": True}]}
ONCE: dict[str, Any] = {"draft": "We refund.", "strategy": {"kind": "critique"}}


def by_key(**scores: float) -> ScriptedAnswers:
    """A critic whose score depends on the last part of its step's key; a writer of any draft."""

    async def answer(key: str, call: ModelCall) -> str:
        if isinstance(call.prompt_request, Judge):
            return verdict(scores[key.rpartition("/")[2]], call)
        return f"the draft of {key}"

    return ScriptedAnswers(answer)


async def judged(harness: RefinementHarness, refinement_id: str) -> list[IterationCompleted]:
    data = [event.data for event in await harness.events(refinement_id)]
    return [it for it in data if isinstance(it, IterationCompleted)]


async def test_a_budget_that_allows_part_of_the_samples_is_judged_by_those(
    harness: RefinementHarness,
) -> None:
    given = {"critique": 0.4, "2": 0.6, "3": 0.8, "4": 0.9, "5": 0.1}
    models = by_key(**given)
    refinement_id = await harness.submit(**ONCE, critics={"samples": 5}, stop={"max_tokens": 2_800})
    ended = await harness.play(refinement_id, models)
    assert ended.status is Status.SUCCEEDED
    asked = len(models.calls)
    assert 2 <= asked <= 4
    keys = ["iterations/0/critique", *(f"iterations/0/critique/{n}" for n in (2, 3, 4, 5))]
    failed = [it.data for it in await harness.events(refinement_id)]
    assert list(models.calls) == keys[:asked]
    assert [it.key for it in failed if isinstance(it, StepFailed)] == keys[asked:]
    (only,) = await judged(harness, refinement_id)
    heard = list(given.values())[:asked]
    assert (only.score, only.scores[0].spread) == (median(heard), round(max(heard) - 0.4, 6))


async def test_a_draft_is_written_only_when_all_samples_of_all_critics_can_be_paid(
    harness: RefinementHarness,
) -> None:
    models = by_key(reader=0.4, lawyer=0.5, **{"2": 0.5, "3": 0.5})
    critics = {**PANEL, "samples": 3}
    refinement_id = await harness.submit(
        draft="We refund.", critics=critics, stop={"max_tokens": 6_500}
    )
    ended = await harness.play(refinement_id, models)
    assert ended.stop_reason is StopReason.BUDGET_EXHAUSTED
    assert [it.path for it in await judged(harness, refinement_id)] == ["iterations/0"]
    assert len(models.calls) == 6


async def test_a_panel_that_the_budget_does_not_allow_beside_itself_judges_nothing(
    harness: RefinementHarness,
) -> None:
    models = by_key(reader=0.4, lawyer=0.5)
    refinement_id = await harness.submit(**ONCE, critics=PANEL, stop={"max_tokens": 1_300})
    ended = await harness.play(refinement_id, models)
    assert ended.error is not None
    assert ended.error.code == "nothing_judged"
    assert "budget_exhausted" in ended.error.detail


async def test_a_draft_longer_than_reserved_that_a_panel_cannot_judge_leaves_the_best(
    harness: RefinementHarness,
) -> None:
    async def answer(key: str, call: ModelCall) -> str:
        return (
            verdict(0.4, call)
            if isinstance(call.prompt_request, Judge)
            else " ".join(map(str, range(1_900)))
        )

    refinement_id = await harness.submit(
        draft="We refund.", critics=PANEL, stop={"max_tokens": 5_500}
    )
    ended = await harness.play(refinement_id, ScriptedAnswers(answer))
    assert (ended.status, ended.stop_reason) == (Status.SUCCEEDED, StopReason.BUDGET_EXHAUSTED)
    assert [it.path for it in await judged(harness, refinement_id)] == ["iterations/0"]
    failed = [it.data for it in await harness.events(refinement_id)]
    assert [it.key for it in failed if isinstance(it, StepFailed)] == [
        "iterations/1/critique/lawyer"
    ]


async def test_a_critic_that_cannot_be_reached_fails_what_its_panel_was_asked(
    harness: RefinementHarness,
) -> None:
    async def answer(key: str, call: ModelCall) -> str:
        if key.endswith("lawyer"):
            raise ModelError("gone")
        return verdict(0.9, call)

    ended = await harness.play(await harness.submit(**ONCE, critics=PANEL), ScriptedAnswers(answer))
    assert ended.error is not None
    assert (ended.error.code, ended.usage.calls) == ("model_unavailable", 1)


async def test_who_found_what_is_in_the_journal(harness: RefinementHarness) -> None:
    async def answer(key: str, call: ModelCall) -> str:
        found = {"kind": "quality", "message": f"said at {key}", "quote": "refund"}
        return json.dumps({**json.loads(verdict(0.9, call)), "findings": [found]})

    refinement_id = await harness.submit(**ONCE, critics=PANEL)
    await harness.play(refinement_id, ScriptedAnswers(answer))
    (only,) = await judged(harness, refinement_id)
    assert [it.source for it in only.findings] == ["critic/reader"]
    steps = [event.data for event in await harness.events(refinement_id)]
    prompts = {it.key: it.prompt for it in steps if isinstance(it, StepCompleted)}
    assert prompts.keys() == {"iterations/0/critique/reader", "iterations/0/critique/lawyer"}
    assert len({it.about for it in steps if isinstance(it, StepCompleted)}) == 2
