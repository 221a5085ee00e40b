"""Issues across reviews and inner searches, in the journal and as a client sees them."""

import json
from typing import Any

import pytest

from app.service.iterations import iterations_of
from tests.workers.refinement_harness import TENANT, RefinementHarness, ScriptedAnswers
from workers.engine.prompts import Judge
from workers.models.port import ModelCall

LATE, COLD = "Does not state the deadline at all.", "The tone is cold."
BEFORE: dict[str, Any] = {"review": {"when": "before_completion"}}
STAGES = [{"name": "polish", "max_iterations": 1, "threshold": 0.1}]
SHAPES: dict[str, dict[str, Any]] = {
    "iterations/1": {"max_iterations": 1},
    "stages/polish/iterations/1": {"strategy": {"kind": "stepwise", "stages": STAGES}},
}


def finding(*messages: str) -> ScriptedAnswers:
    """A writer, and a critic that finds this until a reviewer had their say."""

    async def answer(key: str, call: ModelCall) -> str:
        if not isinstance(call.prompt_request, Judge):
            return f"Text of {key}."
        found = [{"kind": "quality", "message": it} for it in messages]
        kept = found[:1] if key.startswith("reviews") else found
        score = {"criterion": "quality", "score": 0.5}
        return json.dumps({"scores": [score], "findings": kept})

    return ScriptedAnswers(answer)


async def issues(harness: RefinementHarness, refinement_id: str) -> dict[str, dict[str, str]]:
    """Return the state of every issue by iteration and id."""
    request = await harness.store.request(TENANT, refinement_id)
    judged = iterations_of(await harness.events(refinement_id), request)
    return {one.path: {it.id: it.state.value for it in one.issues} for one in judged}


@pytest.mark.parametrize("first", SHAPES)
async def test_what_a_reviewer_asked_for_is_revised_from_what_they_were_shown(
    harness: RefinementHarness, first: str
) -> None:
    models = finding(LATE, COLD)
    refinement_id = await harness.submit(**BEFORE, **SHAPES[first])
    await harness.play(refinement_id, models)
    shown = (await harness.snapshot(refinement_id)).review
    assert shown is not None
    assert shown.path is not None
    await harness.say(refinement_id, action="revise", feedback="Name the deadline.")
    await harness.play(refinement_id, models, "second")
    told = await issues(harness, refinement_id)
    late, cold = (f"{shown.path}#{number}" for number in (1, 2))
    assert told[shown.path] == {late: "new", cold: "new"}
    assert told["reviews/1/iterations/1"] == {late: "carried", cold: "resolved"}


@pytest.mark.parametrize("first", SHAPES)
async def test_a_rating_leaves_the_issues_as_they_are(
    harness: RefinementHarness, first: str
) -> None:
    models = finding(LATE, COLD)
    refinement_id = await harness.submit(**BEFORE, **SHAPES[first])
    await harness.play(refinement_id, models)
    before = await issues(harness, refinement_id)
    await harness.say(refinement_id, action="rate", score=0.9)
    await harness.play(refinement_id, models, "second")
    assert await issues(harness, refinement_id) == before
    assert before[first] == {f"{first}#1": "new", f"{first}#2": "new"}
