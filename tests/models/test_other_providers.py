"""Azure, Gemini and Bedrock: requests and responses as their documentation shows them."""

import json
from typing import Any

import pytest

from benchmarks.model_replies import AskedPrompt, ModelServerReply
from tests.models.calls import RecordingBehaviour, call, critique, in_turn, serving
from workers.models.anthropic import Anthropic
from workers.models.openai import OpenAI

NOTHING: frozenset[str] = frozenset()


def body_of(base_url: str, **changes: Any) -> dict[str, Any]:
    request = OpenAI(base_url, "key-1").request(call(**changes), NOTHING)
    body: dict[str, Any] = json.loads(request.body)
    return body


@pytest.mark.parametrize(
    "host", ["resource.openai.azure.com", "resource.services.ai.azure.com"], ids=["openai", "ai"]
)
def test_azures_v1_api_is_openais_with_azures_host(host: str) -> None:
    base_url = f"https://{host}/openai/v1/"
    request = OpenAI(base_url, "key-1").request(call(model="my-deployment"), NOTHING)
    assert request.url == f"https://{host}/openai/v1/chat/completions"
    assert request.headers == {"Authorization": "Bearer key-1"}
    body = body_of(base_url, model="my-deployment")
    assert body["model"] == "my-deployment"
    assert body["max_completion_tokens"] == 4_096


def test_azures_older_api_names_the_deployment_and_its_version_in_the_address() -> None:
    base_url = "https://r.openai.azure.com/openai/deployments/my-gpt?api-version=2024-10-21"
    request = OpenAI(base_url, "key-1").request(call(model="my-gpt"), NOTHING)
    assert request.url.endswith("/my-gpt/chat/completions?api-version=2024-10-21")
    assert request.headers == {"api-key": "key-1"}


AZURE = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "gpt-5-mini-2025-08-07",
    "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}],
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "content_filter_results": {"hate": {"filtered": False, "severity": "safe"}},
            "logprobs": None,
            "message": {"role": "assistant", "content": "Dear customer", "refusal": None},
        }
    ],
    "usage": {
        "prompt_tokens": 1_200,
        "completion_tokens": 400,
        "total_tokens": 1_600,
        "prompt_tokens_details": {"audio_tokens": 0, "cached_tokens": 1_024},
        "completion_tokens_details": {
            "accepted_prediction_tokens": 0,
            "audio_tokens": 0,
            "reasoning_tokens": 256,
            "rejected_prediction_tokens": 0,
        },
    },
}


def sent(reply: object) -> ModelServerReply:
    return ModelServerReply(body=json.dumps(reply).encode())


async def test_a_response_of_azure_is_read_with_what_was_cached_and_thought() -> None:
    async with serving(in_turn(sent(AZURE)), provider="azure") as (model, _):
        reply = await model.complete(call(model="my-deployment"))
    assert (reply.text, reply.model) == ("Dear customer", "azure:gpt-5-mini-2025-08-07")
    assert (reply.usage.cached_tokens, reply.usage.thinking_tokens) == (1_024, 256)


GEMINI = "https://generativelanguage.googleapis.com/v1beta/openai/"


def test_geminis_endpoint_is_called_with_max_tokens_and_the_schema() -> None:
    request = OpenAI(GEMINI, "key-1").request(critique(model="gemini-3.8-flash"), NOTHING)
    assert request.url == f"{GEMINI}chat/completions"
    assert request.headers == {"Authorization": "Bearer key-1"}
    body = json.loads(request.body)
    assert body["max_tokens"] == 4_096
    assert body["response_format"]["type"] == "json_schema"
    assert "prompt_cache_key" not in body


GEMINI_REPLY = {
    "id": "abc",
    "object": "chat.completion",
    "created": 1_790_000_000,
    "model": "gemini-3.8-flash",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {
                "role": "assistant",
                "content": "Dear customer",
                "extra_content": {"google": {"thought_signature": "Zm9v"}},
            },
        }
    ],
    "usage": {"prompt_tokens": 20, "completion_tokens": 151, "total_tokens": 553},
}


async def test_what_gemini_thought_counts_as_output_although_its_output_leaves_it_out() -> None:
    async with serving(in_turn(sent(GEMINI_REPLY)), provider="gemini") as (model, _):
        reply = await model.complete(call(model="gemini-3.8-flash"))
    assert reply.text == "Dear customer"
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (20, 533)
    assert reply.usage.thinking_tokens == 382


async def test_a_level_that_gemini_does_not_know_is_read_from_its_list_of_errors() -> None:
    def answer(asked: AskedPrompt) -> ModelServerReply:
        if asked.json["reasoning_effort"] == "minimal":
            said = "Invalid reasoning_effort: minimal. Valid values are: high, low, medium, none"
            error = {"error": {"code": 400, "message": said, "status": "INVALID_ARGUMENT"}}
            return ModelServerReply(status=400, body=json.dumps([error]).encode())
        return sent(GEMINI_REPLY)

    behaviour = RecordingBehaviour(answer)
    async with serving(behaviour, provider="gemini") as (model, _):
        await model.complete(call(model="gemini-3-flash-preview", reasoning_effort="minimal"))
    assert [it.json["reasoning_effort"] for it in behaviour.asked] == ["minimal", "low"]


BEDROCK_REPLY = {
    "id": "chatcmpl-2",
    "object": "chat.completion",
    "model": "openai.gpt-oss-120b-1:0",
    "service_tier": "default",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {
                "role": "assistant",
                "content": "Dear customer",
                "reasoning": "They want a refund.",
            },
        }
    ],
    "usage": {"prompt_tokens": 70, "completion_tokens": 90, "total_tokens": 160},
}


async def test_bedrocks_openai_endpoint_is_called_with_its_key_and_read() -> None:
    base_url = "https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1"
    request = OpenAI(base_url, "key-1").request(call(model="openai.gpt-oss-120b-1:0"), NOTHING)
    assert request.url == f"{base_url}/chat/completions"
    assert request.headers == {"Authorization": "Bearer key-1"}
    async with serving(in_turn(sent(BEDROCK_REPLY)), provider="bedrock") as (model, _):
        reply = await model.complete(call(model="openai.gpt-oss-120b-1:0"))
    assert (reply.text, reply.usage.output_tokens) == ("Dear customer", 90)


def test_claude_on_bedrock_is_called_by_anthropics_api_on_mantle() -> None:
    base_url = "https://bedrock-mantle.us-east-1.api.aws/anthropic"
    request = Anthropic(base_url, "key-1").request(call(model="anthropic.claude-opus-5"), NOTHING)
    assert request.url == f"{base_url}/v1/messages"
    assert request.headers == {"anthropic-version": "2023-06-01", "x-api-key": "key-1"}
    assert json.loads(request.body)["model"] == "anthropic.claude-opus-5"
