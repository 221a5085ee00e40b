"""What a worker records of a refinement: a span per claim, and one per step, in one trace."""

import json
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from app.contract.judgement import Usage
from app.telemetry import Origin, TraceContext, current_span, request_id
from tests.telemetry.collector import RecordedSpans
from tests.workers.refinement_harness import (
    TEST_MODEL,
    TOKENS,
    DyingStore,
    Killed,
    RefinementHarness,
    ScriptedAnswers,
    away,
    refusing,
    scores,
)
from workers.models.port import ModelCall, ModelRefused, ModelReply
from workers.play.executor import describe_reply
from workers.play.refinements import Refinements

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GIVEN = Origin("req_7", TraceContext(f"00-{TRACE}-{SPAN}-01"))
STEPS = [
    "iterations/1/draft",
    "iterations/1/critique",
    "iterations/2/revise",
    "iterations/2/critique",
]


async def played(
    harness: RefinementHarness,
    recorded: RecordedSpans,
    models: ScriptedAnswers,
    refinement_id: str,
    *,
    store: Any = None,
    job: int = 1,
) -> None:
    worker = Refinements(
        store or harness.worker_store, models, f"w{job}", models.outside, traces=recorded.traces
    )
    await worker.refine(f"{refinement_id}-{job}", refinement_id)


def told(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def keys(spans: list[ReadableSpan]) -> list[Any]:
    return [told(it).get("hone.step") for it in spans]


async def test_a_claim_and_each_of_its_steps_is_a_span_in_the_trace_of_the_submission(
    harness: RefinementHarness,
) -> None:
    recorded = RecordedSpans()
    refinement_id = await harness.submit(origin=GIVEN.encode(), max_iterations=2)
    models = scores(0.4, 0.9)
    models.usage = Usage(calls=1, input_tokens=70, output_tokens=7, cached_tokens=50, cost_usd=0.25)
    await played(harness, recorded, models, refinement_id)
    *steps, claim = recorded.ended
    assert {f"{it.context.trace_id:032x}" for it in recorded.ended if it.context} == {TRACE}
    assert claim.parent is not None
    assert f"{claim.parent.span_id:016x}" == SPAN
    assert (claim.name, claim.kind) == ("invoke_workflow iterative", SpanKind.CONSUMER)
    about = told(claim)
    assert about["hone.refinement.id"] == refinement_id
    assert (about["hone.claim"], about["hone.request.id"]) == ("first", "req_7")
    assert (about["hone.status"], about["hone.calls"]) == ("succeeded", 4)
    assert all(it.parent == claim.context for it in steps)
    assert [it for it in keys(steps) if it in STEPS] == STEPS
    draft = next(it for it in steps if told(it)["hone.step"] == STEPS[0])
    assert (draft.name, draft.kind) == ("chat test", SpanKind.CLIENT)
    assert (
        told(draft).items()
        >= {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "scripted",
            "gen_ai.request.model": "test",
            "gen_ai.response.model": "test",
            "gen_ai.output.type": "text",
            "gen_ai.usage.input_tokens": 70,
            "gen_ai.usage.output_tokens": 7,
            "gen_ai.usage.cache_read.input_tokens": 50,
            "hone.cost_usd": 0.25,
            "hone.role": "generator",
        }.items()
    )
    assert not any("messages" in it or "instructions" in it for s in steps for it in told(s))


async def test_after_a_crash_the_trace_goes_on_and_no_step_has_a_second_span(
    harness: RefinementHarness,
) -> None:
    recorded, models = RecordedSpans(), scores(0.4, 0.9)
    refinement_id = await harness.submit(max_iterations=2)
    dying: Any = DyingStore(harness.worker_store, 3, after=True)
    with pytest.raises(Killed):
        await played(harness, recorded, models, refinement_id, store=dying)
    before = keys(recorded.named("chat"))
    assert before[0] == STEPS[0]
    await harness.worker_store.hand_back(refinement_id, dying.nonce)
    await played(harness, recorded, models, refinement_id, job=2)
    assert sorted(keys(recorded.named("chat"))) == sorted(STEPS)
    assert len({it.context.trace_id for it in recorded.ended if it.context}) == 1
    assert [told(it)["hone.claim"] for it in recorded.named("invoke_workflow")] == [
        "first",
        "resumed",
    ]


async def test_refusals_fallbacks_and_waits_are_events_of_the_step(
    harness: RefinementHarness,
) -> None:
    recorded = RecordedSpans()
    models = refusing(scores(0.9), away(0.01, is_open=False), away(0.01, is_open=False))
    refinement_id = await harness.submit(max_iterations=1)
    await played(harness, recorded, models, refinement_id)
    step = recorded.named("chat")[0]
    assert [it.name for it in step.events] == ["model does not serve now", "waits"] * 2
    refused = dict(step.events[0].attributes or {})
    assert (refused["hone.reason"], refused["gen_ai.request.model"]) == (
        "unreachable",
        TEST_MODEL.model,
    )
    assert step.status.status_code is StatusCode.UNSET


async def test_a_step_that_fails_says_so_without_the_words_of_the_server(
    harness: RefinementHarness,
) -> None:
    async def refused(_key: str, _call: ModelCall) -> str:
        raise ModelRefused("the server quotes the text")

    recorded = RecordedSpans()
    refinement_id = await harness.submit()
    await played(harness, recorded, ScriptedAnswers(refused), refinement_id)
    step, claim = recorded.ended
    for span in (step, claim):
        assert span.status.status_code is StatusCode.ERROR
        assert told(span)["error.type"] == "model_refused"
    assert "quotes" not in f"{step.to_json()}{claim.to_json()}"


@pytest.mark.parametrize(("is_asked", "store"), [(True, True), (True, False), (False, True)])
async def test_texts_are_recorded_only_on_request_and_if_they_may_be_stored(
    harness: RefinementHarness, is_asked: bool, store: bool
) -> None:
    recorded = RecordedSpans(has_content=is_asked)
    refinement_id = await harness.submit(max_iterations=1, store=store)
    await played(harness, recorded, scores(0.9), refinement_id)
    about = told(recorded.named("chat")[0])
    assert ("gen_ai.input.messages" in about) == (is_asked and store)
    if is_asked and store:
        (asked,) = json.loads(about["gen_ai.input.messages"])
        assert "Explain refunds." in asked["parts"][0]["content"]
        (answer,) = json.loads(about["gen_ai.output.messages"])
        assert (answer["role"], answer["parts"][0]["type"]) == ("assistant", "text")


async def test_lines_of_a_worker_have_the_request_and_the_trace_of_the_submission(
    harness: RefinementHarness,
) -> None:
    seen: list[tuple[str | None, str | None]] = []

    async def answer(key: str, call: ModelCall) -> str:
        place = current_span().context
        seen.append((request_id.get(), place.trace_id if place else None))
        return await models.answer(key, call)

    models = scores(0.9)
    refinement_id = await harness.submit(origin=GIVEN.encode(), max_iterations=1)
    await harness.play(refinement_id, replace(models, answer=answer))
    assert set(seen) == {("req_7", TRACE)}
    assert request_id.get() is None


def test_why_a_model_stopped_stands_in_the_words_of_its_server() -> None:
    recorded = RecordedSpans()
    with recorded.traces.span(GIVEN, "a", "consumer"):
        describe_reply(ModelReply("x", "near:small", TOKENS, finish_reason="end_turn"))
    (span,) = recorded.ended
    assert told(span) == {"gen_ai.response.finish_reasons": ("end_turn",)}
