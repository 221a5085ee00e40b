import json

import pytest

from benchmarks.model_replies import AskedPrompt, ModelServerReply
from tests.models.calls import RecordingBehaviour, call, critique, in_turn, serving
from workers.models.anthropic import Anthropic
from workers.models.port import ModelRefused, NotServed, UnreadableReply


def message(text: str, **changes: object) -> ModelServerReply:
    answer = {
        "type": "message",
        "model": "claude-x-1",
        "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": {
            "input_tokens": 50,
            "cache_creation_input_tokens": None,
            "cache_read_input_tokens": 7,
            "output_tokens": 20,
        },
    }
    return ModelServerReply(body=json.dumps(answer | changes).encode())


def refusal(text: str) -> ModelServerReply:
    error = {"type": "invalid_request_error", "message": text}
    return ModelServerReply(status=400, body=json.dumps({"type": "error", "error": error}).encode())


def speaking(base_url: str) -> Anthropic:
    return Anthropic(base_url, "key-1")


async def test_a_call_becomes_a_message() -> None:
    behaviour = RecordingBehaviour(in_turn(message("Dear customer")))
    question = call(max_output_tokens=99)
    async with serving(behaviour, speaking=speaking) as (model, _):
        reply = await model.complete(question)
    (asked,) = behaviour.asked
    assert asked.path == "/v1/messages"
    assert asked.header("x-api-key") == "key-1"
    assert asked.header("anthropic-version") == "2023-06-01"
    assert asked.json == {
        "model": "gpt-x",
        "max_tokens": 99,
        "system": question.prompt.system,
        "messages": [{"role": "user", "content": question.prompt.user}],
    }
    assert (reply.text, reply.model) == ("Dear customer", "local:claude-x-1")
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (57, 20)


async def test_json_is_asked_for_as_structured_output() -> None:
    behaviour = RecordingBehaviour(in_turn(message("{}")))
    question = critique()
    async with serving(behaviour, speaking=speaking) as (model, _):
        await model.complete(question)
    json_format = {"type": "json_schema", "schema": question.prompt.schema}
    assert behaviour.asked[0].json["output_config"] == {"format": json_format}


async def test_a_model_without_structured_output_gets_the_schema_in_words() -> None:
    def older(asked: AskedPrompt) -> ModelServerReply:
        if "output_config" in asked.json:
            return refusal("output_config: Extra inputs are not permitted")
        return message("{}")

    behaviour = RecordingBehaviour(older)
    async with serving(behaviour, speaking=speaking) as (model, _):
        await model.complete(critique())
        await model.complete(critique())
    assert ["output_config" in it.json for it in behaviour.asked] == [True, False, False]
    (asked,) = behaviour.asked[-1].json["messages"]
    assert asked["content"].startswith(critique().prompt.user)
    assert '"additionalProperties": false' in asked["content"]
    assert behaviour.asked[-1].json["system"] == critique().prompt.system


async def test_a_temperature_that_a_model_refuses_is_left_out() -> None:
    def newer(asked: AskedPrompt) -> ModelServerReply:
        return (
            refusal("temperature: not supported") if "temperature" in asked.json else message("x")
        )

    behaviour = RecordingBehaviour(newer)
    async with serving(behaviour, speaking=speaking) as (model, _):
        await model.complete(call(temperature=0))
    assert ["temperature" in it.json for it in behaviour.asked] == [True, False]


async def test_a_refusal_that_names_no_part_stays_a_refusal() -> None:
    async with serving(in_turn(refusal("credit balance is too low")), speaking=speaking) as (it, _):
        with pytest.raises(NotServed, match="credit balance is too low"):
            await it.complete(critique())


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (message("Dear cust", stop_reason="max_tokens"), UnreadableReply),
        (message("", stop_reason="refusal"), ModelRefused),
        (message("", content=[]), UnreadableReply),
        (ModelServerReply(body=b'{"choices": []}'), UnreadableReply),
    ],
)
async def test_a_reply_that_must_not_be_used_is_an_error(
    reply: ModelServerReply, error: type[Exception]
) -> None:
    async with serving(in_turn(reply), speaking=speaking) as (model, _):
        with pytest.raises(error):
            await model.complete(call(tries=2))
