import pytest

from benchmarks.model_replies import AskedPrompt, ModelServerReply, chat, refusal
from tests.models.calls import RecordingBehaviour, call, critique, in_turn, serving
from workers.models.openai import OpenAI
from workers.models.port import ModelRefused, NotServed

NOTHING: frozenset[str] = frozenset()


async def test_a_call_becomes_a_chat_completion() -> None:
    behaviour = RecordingBehaviour(in_turn(chat("Dear customer", model="gpt-x-2026")))
    async with serving(behaviour) as (model, _):
        question = call(temperature=0.3, max_output_tokens=99)
        reply = await model.complete(question)
    (asked,) = behaviour.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.header("idempotency-key") == "ref_1/iterations/1/draft"
    assert asked.json == {
        "model": "gpt-x",
        "messages": [
            {"role": "system", "content": question.prompt.system},
            {"role": "user", "content": question.prompt.user},
        ],
        "max_tokens": 99,
        "temperature": 0.3,
    }
    assert (reply.text, reply.model) == ("Dear customer", "local:gpt-x-2026")
    assert (reply.usage.calls, reply.usage.input_tokens, reply.usage.output_tokens) == (1, 700, 300)


async def test_json_is_asked_for_with_its_schema() -> None:
    behaviour = RecordingBehaviour(in_turn(chat("{}")))
    question = critique()
    async with serving(behaviour) as (model, _):
        await model.complete(question)
    assert behaviour.asked[0].json["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "critique", "schema": question.prompt.schema, "strict": True},
    }


def accepting(*json_formats: str) -> RecordingBehaviour:
    """A server that refuses every `response_format` but these."""

    def answer(asked: AskedPrompt) -> ModelServerReply:
        wanted = asked.json.get("response_format", {"type": "none"})["type"]
        if wanted in json_formats:
            return chat("{}")
        return refusal(400, f"'response_format.type' {wanted} is not supported")

    return RecordingBehaviour(answer)


def formats(behaviour: RecordingBehaviour) -> list[str]:
    return [it.json.get("response_format", {"type": "none"})["type"] for it in behaviour.asked]


@pytest.mark.parametrize(
    ("accepted", "tried"),
    [
        ("json_object", ["json_schema", "json_object"]),
        ("none", ["json_schema", "json_object", "none"]),
    ],
)
async def test_what_a_server_has_not_is_not_asked_for_twice(
    accepted: str, tried: list[str]
) -> None:
    behaviour = accepting(accepted)
    question = critique()
    async with serving(behaviour) as (model, _):
        first = await model.complete(question)
        second = await model.complete(question)
    assert formats(behaviour) == [*tried, accepted]
    assert (first.usage.calls, second.usage.calls) == (1, 1)
    system, user = (it["content"] for it in behaviour.asked[-1].json["messages"])
    assert system == question.prompt.system
    assert user.startswith(question.prompt.user)
    assert '"additionalProperties": false' in user


async def test_each_model_of_a_server_is_tried_by_itself() -> None:
    behaviour = accepting("json_object")
    async with serving(behaviour) as (model, _):
        await model.complete(critique())
        await model.complete(critique(model="gpt-y"))
    assert formats(behaviour) == ["json_schema", "json_object"] * 2


async def test_a_refusal_to_every_format_is_a_refusal() -> None:
    async with serving(accepting()) as (model, server):
        with pytest.raises(ModelRefused, match="none is not supported"):
            await model.complete(critique())
        assert server.counts.calls == 3


@pytest.mark.parametrize("status", [401, 404])
async def test_only_a_refusal_of_the_request_itself_is_asked_again_without_a_part(
    status: int,
) -> None:
    async with serving(in_turn(refusal(status, "no json_schema for you"))) as (model, server):
        with pytest.raises((ModelRefused, NotServed)):
            await model.complete(critique())
        assert server.counts.calls == 1


async def test_a_different_request_has_a_key_of_its_own() -> None:
    async with serving(accepting("none")) as (model, server):
        await model.complete(critique())
        assert list(server.counts.keys) == [
            "ref_1/iterations/1/draft",
            "ref_1/iterations/1/draft;without=json_schema",
            "ref_1/iterations/1/draft;without=json_object+json_schema",
        ]


async def test_a_key_with_characters_that_no_field_may_have_is_escaped() -> None:
    async with serving(in_turn(chat("done"))) as (model, server):
        await model.complete(call(key="ref_1/stages/Überblick\r\nX: 1/draft"))
        assert list(server.counts.keys) == ["ref_1/stages/%C3%9Cberblick%0D%0AX:%201/draft"]


def reasoning_model(asked: AskedPrompt) -> ModelServerReply:
    """Refuse what OpenAI's reasoning models refuse, one parameter at a time."""
    if "max_tokens" in asked.json:
        message = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
        return refusal(400, message, param="max_tokens", code="unsupported_parameter")
    if "temperature" in asked.json:
        message = "Unsupported value: 'temperature' does not support 0 with this model."
        return refusal(400, message, param="temperature", code="unsupported_value")
    return chat("done")


async def test_parameters_a_model_refuses_are_left_out_from_then_on() -> None:
    behaviour = RecordingBehaviour(reasoning_model)
    async with serving(behaviour) as (model, _):
        first = await model.complete(call(temperature=0))
        second = await model.complete(call(temperature=0))
    assert (first.usage.calls, second.usage.calls) == (1, 1)
    assert len(behaviour.asked) == 4
    assert behaviour.asked[-1].json["max_completion_tokens"] == 4_096
    assert behaviour.asked[-1].json.keys() == {"model", "messages", "max_completion_tokens"}


async def test_a_key_of_a_few_characters_hides_no_word_of_an_error() -> None:
    def with_key(url: str) -> OpenAI:
        return OpenAI(url, "to")

    async with serving(reasoning_model, speaking=with_key) as (model, _):
        assert (await model.complete(call(temperature=0))).text == "done"


async def test_an_output_limit_refused_under_both_names_is_a_refusal() -> None:
    def answer(asked: AskedPrompt) -> ModelServerReply:
        (name,) = asked.json.keys() & {"max_tokens", "max_completion_tokens"}
        return refusal(400, f"{name} is too large: 200000")

    async with serving(answer) as (model, server):
        with pytest.raises(ModelRefused, match="too large"):
            await model.complete(call())
        assert server.counts.calls == 2


async def test_tokens_that_were_not_counted_are_estimated_and_their_cost_is_unknown() -> None:
    async with serving(in_turn(chat("123456", usage=None)), provider="openai") as (model, _):
        usage = (await model.complete(call(model="gpt-5-mini"))).usage
    assert usage.output_tokens == 2
    assert usage.input_tokens > 200
    assert usage.cost_usd is None


@pytest.mark.parametrize("asked", [10**30, -1, 0, True, 5.0, "5", [5]])
async def test_a_count_of_tokens_that_cannot_be_is_estimated_instead(asked: object) -> None:
    usage = {"prompt_tokens": asked, "completion_tokens": 1}
    async with serving(in_turn(chat("123456", usage=usage)), provider="openai") as (model, _):
        counted = (await model.complete(call(model="gpt-5-mini"))).usage
    assert 200 < counted.input_tokens < 10_000
    assert counted.cost_usd is None


async def test_a_known_price_gives_a_cost_and_an_unknown_one_none() -> None:
    async with serving(in_turn(chat("done")), provider="openai") as (model, _):
        known = await model.complete(call(model="gpt-5-mini"))
        unknown = await model.complete(call(model="gpt-unheard-of"))
    assert known.usage.cost_usd == pytest.approx((700 * 0.25 + 300 * 2) / 1_000_000)
    assert unknown.usage.cost_usd is None


async def test_a_text_in_parts_is_joined() -> None:
    parts = [{"type": "text", "text": "Dear "}, {"type": "text", "text": "customer"}]
    reply = chat("", choices=[{"message": {"role": "assistant", "content": parts}}])
    async with serving(in_turn(reply)) as (model, _):
        assert (await model.complete(call())).text == "Dear customer"


def test_a_key_is_sent_as_a_bearer_token() -> None:
    request = OpenAI("https://api.openai.com/v1/", "sk-1").request(call(), NOTHING)
    assert request.url == "https://api.openai.com/v1/chat/completions"
    assert request.headers == {"Authorization": "Bearer sk-1"}
    assert b'"max_completion_tokens"' in request.body
    assert "sk-1" not in repr(request).replace("Bearer sk-1", "")


def test_no_key_is_no_field() -> None:
    assert OpenAI("http://127.0.0.1:11434/v1").request(call(), NOTHING).headers == {}


def test_a_base_url_with_an_api_version_is_azures() -> None:
    base = "https://x.openai.azure.com/openai/deployments/gpt?api-version=2024-10-21"
    request = OpenAI(base, "key-1").request(call(), NOTHING)
    assert request.url == (
        "https://x.openai.azure.com/openai/deployments/gpt/chat/completions?api-version=2024-10-21"
    )
    assert request.headers == {"api-key": "key-1"}
