"""Models that think: how much they are asked to, and what of it is part of a text."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.model_replies import AskedPrompt, ModelServerReply, chat, refusal
from tests.models.calls import RecordingBehaviour, call, critique, in_turn, serving
from tests.models.test_anthropic import message, speaking
from tests.models.test_anthropic import refusal as anthropic_refusal
from workers.models.anthropic import Anthropic
from workers.models.openai import OpenAI
from workers.models.port import ModelRefused

NOTHING: frozenset[str] = frozenset()


def levels(*known: str) -> Callable[[AskedPrompt], ModelServerReply]:
    """A model with these levels of effort."""

    def answer(asked: AskedPrompt) -> ModelServerReply:
        effort = asked.json.get("reasoning_effort")
        if effort is None or effort in known:
            return chat("done")
        listed = ", ".join(f"'{it}'" for it in known)
        return refusal(
            400,
            f"Unsupported value: 'reasoning_effort' does not support '{effort}' with this model."
            f" Supported values are: {listed}.",
            param="reasoning_effort",
        )

    return answer


async def efforts(
    behaviour: Callable[[AskedPrompt], ModelServerReply], effort: Any
) -> list[str | None]:
    recording = RecordingBehaviour(behaviour)
    async with serving(recording) as (model, _):
        await model.complete(call(reasoning_effort=effort))
        await model.complete(call(reasoning_effort=effort))
    return [it.json.get("reasoning_effort") for it in recording.asked]


@pytest.mark.parametrize(
    ("known", "asked", "tried"),
    [
        (["low", "medium", "high"], "low", ["low", "low"]),
        (["low", "medium", "high"], "none", ["none", "minimal", "low", "low"]),
        (["low", "medium", "high"], "max", ["max", "xhigh", "high", "high"]),
        (["none"], "low", ["low", "medium", "high", "xhigh", "max", "minimal", "none", "none"]),
    ],
)
async def test_a_level_that_a_model_does_not_know_becomes_the_nearest(
    known: list[str], asked: str, tried: list[str]
) -> None:
    assert await efforts(levels(*known), asked) == tried


async def test_a_model_that_does_not_think_is_asked_without_a_level() -> None:
    def plain(asked: AskedPrompt) -> ModelServerReply:
        if "reasoning_effort" in asked.json:
            return refusal(400, "Unrecognized request argument supplied: reasoning_effort")
        return chat("done")

    assert await efforts(plain, "high") == ["high", None, None]


async def test_without_an_effort_nothing_is_said_about_thinking() -> None:
    assert await efforts(in_turn(chat("done")), None) == [None, None]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
async def test_thinking_beside_the_text_is_no_part_of_it(field: str) -> None:
    said = {"role": "assistant", "content": "Dear customer", field: "Hm, they want a refund."}
    reply = chat("", choices=[{"message": said, "finish_reason": "stop"}])
    async with serving(in_turn(reply)) as (model, _):
        assert (await model.complete(call())).text == "Dear customer"


async def test_thinking_parts_of_a_content_are_no_part_of_the_text() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
        {"type": "reasoning", "text": "Hm."},
        {"type": "text", "text": "Dear customer"},
    ]
    reply = chat("", choices=[{"message": {"role": "assistant", "content": parts}}])
    async with serving(in_turn(reply)) as (model, _):
        assert (await model.complete(call())).text == "Dear customer"


def anthropic_body(**changes: Any) -> dict[str, Any]:
    request = Anthropic("https://api.anthropic.com", "k").request(call(**changes), NOTHING)
    body: dict[str, Any] = json.loads(request.body)
    return body


def test_anthropic_thinks_adaptively_with_an_effort_and_without_a_temperature() -> None:
    body = anthropic_body(reasoning_effort="high", temperature=0.2)
    assert body["thinking"] == {"type": "adaptive"}
    assert body["output_config"] == {"effort": "high"}
    assert "temperature" not in body


def test_anthropic_does_not_think_when_told_so_and_takes_a_temperature() -> None:
    body = anthropic_body(reasoning_effort="none", temperature=0.2)
    assert body["thinking"] == {"type": "disabled"}
    assert "output_config" not in body
    assert body["temperature"] == 0.2


async def test_effort_and_the_format_of_the_reply_stand_side_by_side() -> None:
    behaviour = RecordingBehaviour(in_turn(message("{}")))
    async with serving(behaviour, speaking=speaking) as (model, _):
        await model.complete(critique(reasoning_effort="minimal"))
    assert behaviour.asked[0].json["output_config"].keys() == {"effort", "format"}
    assert behaviour.asked[0].json["output_config"]["effort"] == "low"


async def test_an_older_claude_gets_a_budget_for_thinking_below_the_limit() -> None:
    def older(asked: AskedPrompt) -> ModelServerReply:
        if asked.json["thinking"]["type"] == "adaptive":
            return anthropic_refusal("adaptive thinking is not supported on this model")
        return message("x")

    behaviour = RecordingBehaviour(older)
    async with serving(behaviour, speaking=speaking) as (model, _):
        await model.complete(call(reasoning_effort="medium", max_output_tokens=6_000))
        await model.complete(call(reasoning_effort="medium", max_output_tokens=60_000))
    thinking = [it.json["thinking"] for it in behaviour.asked]
    assert thinking == [
        {"type": "adaptive"},
        {"type": "enabled", "budget_tokens": 3_000},
        {"type": "enabled", "budget_tokens": 8_192},
    ]
    assert "output_config" not in behaviour.asked[1].json


async def test_a_claude_that_always_thinks_or_never_does_is_asked_without() -> None:
    def never(asked: AskedPrompt) -> ModelServerReply:
        if "thinking" in asked.json:
            return anthropic_refusal("thinking: Extra inputs are not permitted")
        return message("x")

    for effort in ("none", "high"):
        behaviour = RecordingBehaviour(never)
        async with serving(behaviour, speaking=speaking) as (model, _):
            await model.complete(call(reasoning_effort=effort, max_output_tokens=9_000))
        assert "thinking" not in behaviour.asked[-1].json


async def test_a_level_that_claude_does_not_know_becomes_the_nearest() -> None:
    def answer(asked: AskedPrompt) -> ModelServerReply:
        if asked.json["output_config"]["effort"] in {"low", "medium", "high"}:
            return message("x")
        return anthropic_refusal("output_config.effort: Input should be 'low', 'medium' or 'high'")

    behaviour = RecordingBehaviour(answer)
    async with serving(behaviour, speaking=speaking) as (model, _):
        await model.complete(call(reasoning_effort="xhigh"))
    assert [it.json["output_config"]["effort"] for it in behaviour.asked] == [
        *("xhigh", "max", "high")
    ]


async def test_claudes_thinking_tokens_are_counted() -> None:
    details = {"thinking_tokens": 380}
    usage = {"input_tokens": 9, "output_tokens": 500, "output_tokens_details": details}
    async with serving(in_turn(message("x", usage=usage)), speaking=speaking) as (model, _):
        counted = (await model.complete(call())).usage
    assert (counted.output_tokens, counted.thinking_tokens) == (500, 380)


async def test_a_refusal_that_has_nothing_to_do_with_thinking_is_one() -> None:
    async with serving(in_turn(refusal(400, "messages: too many"))) as (model, server):
        with pytest.raises(ModelRefused):
            await model.complete(call(reasoning_effort="high"))
        assert server.counts.calls == 1


def test_calls_of_a_refinement_share_a_cache_key_with_openai_only() -> None:
    openai = OpenAI("https://api.openai.com/v1", "k").request(call(), NOTHING)
    assert b'"prompt_cache_key":"ref_1"' in openai.body
    for base_url in ("http://127.0.0.1:1/v1", "https://x.openai.azure.com/openai/v1"):
        assert b"prompt_cache_key" not in OpenAI(base_url, "k").request(call(), NOTHING).body
