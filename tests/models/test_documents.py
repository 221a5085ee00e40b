"""Drafts whose format is a client's schema, and servers that reject one of them."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from app.contract.requests import RefinementRequest
from benchmarks.model_replies import AskedPrompt, ModelServerReply, chat, refusal
from tests.models import test_anthropic as anthropic
from tests.models.calls import RecordingBehaviour, call, critique, in_turn, serving
from workers.engine.pipeline import task_of
from workers.engine.prompts import Write
from workers.models.openai import OpenAI
from workers.models.port import ModelCall, ModelRefused
from workers.models.remote import MOST_DOCUMENTS, WireFormat


def schema_of(name: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "integer", "minimum": 1}},
        "required": [name],
        "additionalProperties": False,
    }


def document(name: str = "total", **changes: Any) -> ModelCall:
    checks = [{"kind": "json_schema", "schema": schema_of(name)}]
    request = RefinementRequest.model_validate({"task": "Sum up.", "validators": checks})
    return call(Write(task_of(request, "482913")), **changes)


def rejecting(name: str, word: str) -> Callable[[AskedPrompt], ModelServerReply]:
    """A server that takes every schema except one with that name in it."""

    def answer(asked: AskedPrompt) -> ModelServerReply:
        schema = json.dumps(asked.json.get("response_format") or asked.json.get("output_config"))
        if name in schema:
            return refusal(400, f"Invalid schema for {word}: {name} is not permitted.")
        is_openai = "chat/completions" in asked.path
        return chat('{"total": 1}') if is_openai else anthropic.message('{"total": 1}')

    return answer


def form(asked: AskedPrompt) -> str:
    if "chat/completions" in asked.path:
        return str(asked.json.get("response_format", {"type": "none"})["type"])
    return "structured" if "output_config" in asked.json else "none"


def user_text(asked: AskedPrompt) -> str:
    return str(asked.json["messages"][-1]["content"])


async def test_a_server_with_a_grammar_gets_the_schema_as_format_and_in_words() -> None:
    behaviour = RecordingBehaviour(in_turn(chat('{"total": 1}')))
    async with serving(behaviour) as (model, _):
        await model.complete(document())
    (asked,) = behaviour.asked
    assert asked.json["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "write", "schema": schema_of("total"), "strict": True},
    }
    assert user_text(asked).endswith(json.dumps(schema_of("total")))


def test_openai_shows_the_schema_to_the_model_itself() -> None:
    request = OpenAI("https://api.openai.com/v1").request(document(), frozenset())
    body = json.loads(request.body)
    assert body["response_format"]["json_schema"]["schema"] == schema_of("total")
    assert body["messages"][-1]["content"] == document().prompt.user


async def test_anthropic_gets_the_schema_as_structured_output() -> None:
    behaviour = RecordingBehaviour(in_turn(anthropic.message('{"total": 1}')))
    async with serving(behaviour, speaking=anthropic.speaking) as (model, _):
        await model.complete(document())
    (asked,) = behaviour.asked
    assert asked.json["output_config"] == {
        "format": {"type": "json_schema", "schema": unbounded(schema_of("total"))}
    }
    assert user_text(asked).endswith(json.dumps(schema_of("total"))), "its bounds are told in words"


def unbounded(schema: dict[str, Any]) -> dict[str, Any]:
    members = {name: {"type": it["type"]} for name, it in schema["properties"].items()}
    return {**schema, "properties": members}


def test_azure_gets_the_schema_without_bounds_and_the_model_the_bounds_in_words() -> None:
    server = OpenAI("https://mine.openai.azure.com/openai/v1")
    body = json.loads(server.request(document(), frozenset()).body)
    assert body["response_format"]["json_schema"]["schema"] == unbounded(schema_of("total"))
    assert body["messages"][-1]["content"].endswith(json.dumps(schema_of("total")))


async def test_a_schema_whose_bounds_are_rejected_is_sent_without_them() -> None:
    def answer(asked: AskedPrompt) -> ModelServerReply:
        if "minimum" in json.dumps(asked.json["response_format"]):
            return refusal(400, "Invalid schema for response_format 'write': In context="
                           "('properties', 'total'), 'minimum' is not permitted.")  # fmt: skip
        return chat('{"total": 1}')

    behaviour = RecordingBehaviour(answer)
    async with serving(behaviour) as (model, _):
        for asked in (document(), document(), document("count")):
            await model.complete(asked)
    assert {form(it) for it in behaviour.asked} == {"json_schema"}
    sent = [it.json["response_format"]["json_schema"]["schema"] for it in behaviour.asked]
    total, count = schema_of("total"), schema_of("count")
    assert sent == [total, unbounded(total), unbounded(total), count, unbounded(count)]


WIRES = pytest.mark.parametrize(
    ("speaking", "word", "whole", "less"),
    [
        (OpenAI, "response_format 'write'", "json_schema", ["json_object"]),
        (anthropic.speaking, "output_config.format.schema", "structured", ["none"]),
    ],
    ids=["openai", "anthropic"],
)


@WIRES
async def test_a_schema_that_is_rejected_costs_no_other_its_format(
    speaking: Callable[[str], WireFormat], word: str, whole: str, less: list[str]
) -> None:
    behaviour = RecordingBehaviour(rejecting("total", word))
    async with serving(behaviour, speaking=speaking) as (model, _):
        for asked in (document(), document(), critique(), document("count"), document()):
            await model.complete(asked)
    assert [form(it) for it in behaviour.asked] == [whole, *less, *less, whole, whole, *less]
    assert user_text(behaviour.asked[1]).endswith(json.dumps(schema_of("total")))


@WIRES
async def test_a_format_that_is_rejected_for_critiques_is_not_tried_with_documents(
    speaking: Callable[[str], WireFormat], word: str, whole: str, less: list[str]
) -> None:
    behaviour = RecordingBehaviour(rejecting('"schema"', word))
    async with serving(behaviour, speaking=speaking) as (model, _):
        await model.complete(critique())
        await model.complete(document())
    assert [form(it) for it in behaviour.asked] == [whole, *less, *less]


async def test_what_else_is_rejected_with_a_document_is_left_out_everywhere() -> None:
    def answer(asked: AskedPrompt) -> ModelServerReply:
        return refusal(400, "temperature") if "temperature" in asked.json else chat("{}")

    behaviour = RecordingBehaviour(answer)
    async with serving(behaviour) as (model, _):
        await model.complete(document(temperature=0.5))
        await model.complete(critique(temperature=0.5))
    assert ["temperature" in it.json for it in behaviour.asked] == [True, False, False]
    assert {form(it) for it in behaviour.asked} == {"json_schema"}


async def test_a_server_that_rejects_every_format_is_asked_in_words() -> None:
    def answer(asked: AskedPrompt) -> ModelServerReply:
        if "response_format" in asked.json:
            return refusal(400, "response_format is not supported")
        return chat('{"total": 1}')

    behaviour = RecordingBehaviour(answer)
    async with serving(behaviour) as (model, _):
        await model.complete(document())
        await model.complete(document())
    assert [form(it) for it in behaviour.asked] == ["json_schema", "json_object", "none", "none"]
    assert user_text(behaviour.asked[-1]).endswith(json.dumps(schema_of("total")))


async def test_a_document_that_is_rejected_for_another_reason_fails() -> None:
    async with serving(in_turn(refusal(400, "no"))) as (model, server):
        with pytest.raises(ModelRefused):
            await model.complete(document())
        assert server.counts.calls == 1


async def test_the_memory_of_rejected_schemas_is_bounded() -> None:
    behaviour = RecordingBehaviour(rejecting("properties", "response_format"))
    async with serving(behaviour) as (model, _):
        for number in range(MOST_DOCUMENTS + 1):
            await model.complete(document(f"n{number}"))
        asked = len(behaviour.asked)
        await model.complete(document("n0"))
        assert len(behaviour.asked) - asked == 2, "the oldest was forgotten"
        await model.complete(document(f"n{MOST_DOCUMENTS}"))
        assert len(behaviour.asked) - asked == 3
