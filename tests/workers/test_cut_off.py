"""Replies that are cut off are asked for again with more room, or as edits, and never used."""

import json
from typing import Any

from app.contract.budget import DEFAULT_MAX_OUTPUT_TOKENS
from app.contract.calls import at_most
from app.contract.events import StepCompleted, StepFailed
from app.contract.judgement import Usage
from app.contract.models import ModelChoice
from app.contract.requests import RefinementRequest
from app.contract.status import Status
from tests.workers.refinement_harness import RefinementHarness, ScriptedAnswers, verdict
from workers.engine.prompts import Amend, Judge
from workers.models.port import ModelCall, ReplyCutOff

DEFAULT = ModelChoice(model="anthropic:claude-sonnet-4-5")
"""A model whose room follows the text, up to 64,000 tokens."""
LONG = "".join(
    f"Sentence {number} of the terms says what is refunded, and when.\n" for number in range(440)
)
REVISED = LONG.replace("what", "exactly what")
EDITS = {"edits": {"first": {"search": "Sentence 7 of", "replace": "Sentence 7 in"}, "more": []}}
SPENT = Usage(calls=1, input_tokens=10, output_tokens=4_096, cost_usd=0.001)


def limited(most_tokens: int = 200_000) -> ScriptedAnswers:
    """A model that writes a token a character: more than is expected, and no more than allowed."""

    async def answer(key: str, call: ModelCall) -> str:
        match call.prompt_request:
            case Judge():
                text = verdict(0.5 if key.startswith("iterations/0/") else 0.9, call)
            case Amend():
                text = json.dumps(EDITS)
            case _:
                text = REVISED
        most = min(call.max_output_tokens, most_tokens)
        if len(text) > most:
            raise ReplyCutOff("the reply is cut off", text[:most], SPENT)
        return text

    return ScriptedAnswers(answer)


def steps(events: object, kind: type) -> list[str]:
    return [it.data.key for it in events if isinstance(it.data, kind)]  # type: ignore[attr-defined]


async def test_a_long_draft_is_revised_with_more_room(
    harness: RefinementHarness,
) -> None:
    assert len(LONG) > 25_000
    refinement_id = await harness.submit(DEFAULT, draft=LONG)
    ended = await harness.play(refinement_id, limited())
    assert ended.status is Status.SUCCEEDED
    assert ended.result is not None
    assert ended.result.draft == REVISED
    events = await harness.events(refinement_id)
    assert steps(events, StepFailed) == ["iterations/1/revise"]
    assert "iterations/1/revise/again/1" in steps(events, StepCompleted)
    assert ended.usage.output_tokens >= SPENT.output_tokens


async def test_a_model_of_which_nothing_is_known_gets_more_room_as_well(
    harness: RefinementHarness,
) -> None:
    assert len(REVISED) > DEFAULT_MAX_OUTPUT_TOKENS
    refinement_id = await harness.submit(ModelChoice(model="local:llama"), draft=LONG)
    ended = await harness.play(refinement_id, limited(most_tokens=40_000))
    assert ended.result is not None
    assert ended.result.draft == REVISED
    assert steps(await harness.events(refinement_id), StepFailed) == ["iterations/1/revise"]


async def test_a_draft_too_long_for_the_model_is_revised_by_edits(
    harness: RefinementHarness,
) -> None:
    refinement_id = await harness.submit(DEFAULT, draft=LONG)
    ended = await harness.play(refinement_id, limited(most_tokens=20_000))
    assert ended.result is not None
    assert ended.result.draft == LONG.replace("Sentence 7 of", "Sentence 7 in")
    events = await harness.events(refinement_id)
    assert steps(events, StepFailed) == ["iterations/1/revise", "iterations/1/revise/again/1"]
    assert "iterations/1/revise/edits" in steps(events, StepCompleted)


async def test_it_ends_within_the_calls_that_a_request_makes_at_most(
    harness: RefinementHarness,
) -> None:
    asked: dict[str, Any] = {"task": "Explain refunds.", "max_iterations": 2}
    models = limited(most_tokens=10)
    refinement_id = await harness.submit(**asked)
    ended = await harness.play(refinement_id, models)
    assert (ended.status, ended.error and ended.error.code) == (Status.FAILED, "reply_cut_off")
    assert sum(models.calls.values()) <= at_most(RefinementRequest.model_validate(asked))
    rooms = [f"iterations/1/draft{again}" for again in ("", "/again/1", "/again/2")]
    assert list(models.calls) == rooms


async def test_what_a_reply_is_read_without_stands_in_the_record(
    harness: RefinementHarness,
) -> None:
    finding = {"kind": "style", "message": "Dull.", "fix": None, "quote": None}

    async def answer(key: str, call: ModelCall) -> str:
        if isinstance(call.prompt_request, Judge):
            return json.dumps({"scores": {"c1": {"score": 0.9}}, "findings": [finding]})
        return "We refund."

    refinement_id = await harness.submit()
    await harness.play(refinement_id, ScriptedAnswers(answer))
    events = await harness.events(refinement_id)
    dropped = {it.data.key: it.data.caveats for it in events if isinstance(it.data, StepCompleted)}
    assert dropped["iterations/1/draft"] == ()
    (item,) = dropped["iterations/1/critique"]
    assert (item.code, item.path) == ("item_dropped", "iterations/1/critique")
    assert item.detail == "finding: unknown criterion 'style': Dull."


CAPPED = ModelChoice(model="openai:gpt-5-mini", max_output_tokens=2_000)
"""A model that may write less than the draft has."""


def failed(events: object) -> dict[str, str]:
    found = [it.data for it in events if isinstance(it.data, StepFailed)]  # type: ignore[attr-defined]
    return {step.key: step.code for step in found}


async def test_edits_that_cannot_be_applied_lead_to_no_rewriting_that_admission_would_refuse(
    harness: RefinementHarness,
) -> None:
    async def answer(key: str, call: ModelCall) -> str:
        if isinstance(call.prompt_request, Judge):
            return verdict(0.5, call)
        edit = {"search": "nowhere in the draft", "replace": "anything"}
        return json.dumps({"edits": {"first": edit, "more": []}})

    models = ScriptedAnswers(answer)
    refinement_id = await harness.submit(CAPPED, draft=LONG, edits="delta")
    ended = await harness.play(refinement_id, models)
    assert not any("full" in key for key in models.calls)
    assert failed(await harness.events(refinement_id)) == {
        "iterations/1/revise/full": "reply_overlong"
    }
    assert ended.error is not None
    assert (ended.error.code, ended.result and ended.result.draft) == ("reply_overlong", LONG)
    assert "room for 2000" in ended.error.detail
    assert "iterations/1/revise" in ended.error.steps


async def test_auto_edits_each_part_that_is_too_long_to_rewrite_and_rewrites_the_others(
    harness: RefinementHarness,
) -> None:
    short = "# Short\n\nA short part of the terms, which is said in few words.\n\n"

    async def answer(key: str, call: ModelCall) -> str:
        match call.prompt_request:
            case Judge():
                return verdict(0.4 if "iterations/0/" in key else 0.9, call)
            case Amend():
                return json.dumps(EDITS)
        return short.strip().replace("few words", "a few words")

    models = ScriptedAnswers(answer)
    refinement_id = await harness.submit(
        CAPPED, draft=f"{short}# Long\n\n{LONG}", edits="auto", strategy={"kind": "nested"}
    )
    ended = await harness.play(refinement_id, models)
    written = {key for key in models.calls if "revise" in key}
    assert written == {
        "parts/section-1/iterations/1/revise",
        "parts/section-2/iterations/1/revise/edits",
    }
    assert ended.result is not None
    assert "in a few words" in ended.result.draft
    assert "Sentence 7 in" in ended.result.draft
