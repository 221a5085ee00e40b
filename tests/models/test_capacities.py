"""What models can write, how it is learnt, and what is read from a cache."""

import pytest

from app.contract.providers import capacity_list, capacity_of, cost_usd
from benchmarks.model_replies import AskedPrompt, ModelServerReply, chat, refusal
from tests.models.calls import RecordingBehaviour, call, in_turn, serving
from workers.models.port import ModelRefused
from workers.models.remote import allowed_output

CAPACITIES = capacity_list()


@pytest.mark.parametrize("model", CAPACITIES.models)
def test_every_capacity_has_a_source_and_fits_into_its_context(model: str) -> None:
    capacity = CAPACITIES.models[model]
    assert CAPACITIES.sources[capacity.source].startswith("https://")
    assert capacity.max_output_tokens < capacity.context_tokens


@pytest.mark.parametrize(
    "name",
    [
        "openai:gpt-5-mini",
        "openai:gpt-5-mini-2025-08-07",
        "azure:gpt-5-mini",
        "litellm:openai/gpt-5-mini",
        "bedrock:openai.gpt-5-mini-v1:0",
    ],
)
def test_a_model_can_do_the_same_whoever_serves_it(name: str) -> None:
    assert capacity_of(name) == CAPACITIES.models["gpt-5-mini"]


def test_bedrocks_names_of_claude_are_known() -> None:
    known = CAPACITIES.models["claude-haiku-4-5"]
    assert capacity_of("bedrock:us.anthropic.claude-haiku-4-5-20251001-v1:0") == known
    assert capacity_of("vertex:claude-haiku-4-5@20251001") == known
    assert capacity_of("local:llama") is None


@pytest.mark.parametrize(
    ("said", "most"),
    [
        (
            (
                '{"error": {"message": "max_tokens is too large: 100000. This model supports at'
                ' most 16384 completion tokens, whereas you provided 100000.", "code": null}}'
            ),
            16_384,
        ),
        (
            (
                '{"type": "error", "error": {"message": "max_tokens: 100000 > 64000, which is the'
                ' maximum allowed number of output tokens for claude-sonnet-4-5-20250929"}}'
            ),
            64_000,
        ),
        (
            (
                "input length and `max_tokens` exceed context limit: 150000 + 100000 > 200000,"
                " decrease input length or `max_tokens` and try again"
            ),
            50_000,
        ),
        (
            (
                "This model's maximum context length is 32768 tokens. However, you requested 101200"
                " tokens (1200 in the messages, 100000 in the completion). Please reduce the"
                " length."
            ),
            31_568,
        ),
        (
            (
                "'max_tokens' or 'max_completion_tokens' is too large: 100000. This model's maximum"
                " context length is 40960 tokens and your request has 960 input tokens (100000 >"
                " 40960 - 960)."
            ),
            40_000,
        ),
        (
            (
                "This endpoint's maximum context length is 32768 tokens. However, you requested"
                " about 101200 tokens (1200 of text input, 100000 in the output)."
            ),
            31_568,
        ),
        (
            (
                "Requested token count exceeds the model's maximum context length of 32768 tokens."
                " You requested a total of 101200 tokens: 1200 tokens from the input messages and"
                " 100000 tokens for the completion."
            ),
            31_568,
        ),
        (
            (
                "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 32768."
                " Given: 1200 `inputs` tokens and 100000 `max_new_tokens`"
            ),
            31_568,
        ),
        (
            (
                "This model's maximum context length is 131072 tokens. However, you requested"
                " 100000 output tokens and your prompt contains at least 31073 input tokens, for a"
                " total of at least 131073 tokens. Please reduce the length of the input prompt."
            ),
            50_000,
        ),
        (
            (
                "You passed 31073 input tokens and requested 100000 output tokens. However, the"
                " model's context length is only 131072 tokens, resulting in a maximum input"
                " length of 31072 tokens. Please reduce the length of the input prompt."
            ),
            50_000,
        ),
        (
            (
                "You passed 131073 input tokens and requested 0 output tokens. However, the"
                " model's context length is only 131072 tokens."
            ),
            None,
        ),
        ("`max_tokens` must be less than or equal to `8192`, the maximum value", 8_192),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8_192),
        (
            (
                '{"error": {"code": 400, "message": "Unable to submit request because it has a'
                " maxOutputTokens value of 100000 but the supported range is from 1 (inclusive) to"
                ' 65537 (exclusive). Update the value and try again.", "status": "INVALID"}}'
            ),
            65_536,
        ),
        (
            (
                "The maximum tokens you requested exceeds the model limit of 4096. Try again with a"
                " maximum tokens value that is lower than 4096."
            ),
            4_096,
        ),
        ("max_tokens is too large: 100000", None),
        ("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", None),
        (
            (
                "This model's maximum context length is 8192 tokens. However, your messages"
                " resulted in 9000 tokens."
            ),
            None,
        ),
        ('{"error": {"code": 400, "message": "Invalid value for max_tokens"}}', None),
    ],
)
def test_a_limit_is_learnt_from_what_servers_say(said: str, most: int | None) -> None:
    assert allowed_output(said, 100_000) == most


def modest(asked: AskedPrompt) -> ModelServerReply:
    if asked.json["max_tokens"] > 8_192:
        return refusal(400, "max_tokens is too large: it must be at most 8192")
    return chat("done")


async def test_a_limit_that_is_too_high_is_lowered_and_stays_low() -> None:
    behaviour = RecordingBehaviour(modest)
    async with serving(behaviour) as (model, server):
        first = await model.complete(call(max_output_tokens=50_000))
        second = await model.complete(call(max_output_tokens=20_000))
        small = await model.complete(call(max_output_tokens=100))
        assert list(server.counts.keys)[1].endswith(";output=8192")
    assert [it.json["max_tokens"] for it in behaviour.asked] == [50_000, 8_192, 8_192, 100]
    assert (first.usage.calls, second.usage.calls, small.usage.calls) == (1, 1, 1)


async def test_what_one_input_leaves_of_the_window_is_not_held_against_the_next() -> None:
    said = "maximum context length is 8192 tokens, you requested 9000 tokens (4192 in the messages"

    def answer(asked: AskedPrompt) -> ModelServerReply:
        is_first = asked.number == 1
        return (
            refusal(400, f"max_tokens: {said}, 5000 in the completion)")
            if is_first
            else chat("done")
        )

    behaviour = RecordingBehaviour(answer)
    async with serving(behaviour) as (model, _):
        await model.complete(call(max_output_tokens=5_000))
        await model.complete(call(max_output_tokens=5_000))
    assert [it.json["max_tokens"] for it in behaviour.asked] == [5_000, 4_000, 5_000]


def vllm(asked: AskedPrompt) -> ModelServerReply:
    """Refuse as vLLM does, which reads no more of a prompt than there is room for."""
    if (output := asked.json["max_tokens"]) + 5_000 <= 32_768:
        return chat("done")
    said = (
        f"This model's maximum context length is 32768 tokens. However, you requested {output}"
        f" output tokens and your prompt contains at least {32_769 - output} input tokens"
    )
    return refusal(400, said)


async def test_a_prompt_that_leaves_less_room_than_was_asked_for_is_answered() -> None:
    behaviour = RecordingBehaviour(vllm)
    async with serving(behaviour) as (model, _):
        await model.complete(call(max_output_tokens=32_000))
    assert [it.json["max_tokens"] for it in behaviour.asked] == [32_000, 16_000]


def sglang(asked: AskedPrompt) -> ModelServerReply:
    """Refuse as SGLang does, which leaves one token of the window free."""
    if (output := asked.json["max_tokens"]) + 5_000 < 32_768:
        return chat("done")
    said = (
        "Requested token count exceeds the model's maximum context length of 32768 tokens. You"
        f" requested a total of {output + 5_000} tokens: 5000 tokens from the input messages and"
        f" {output} tokens for the completion."
    )
    return refusal(400, said)


async def test_a_server_that_fills_no_window_to_its_last_token_gets_one_token_less() -> None:
    behaviour = RecordingBehaviour(sglang)
    async with serving(behaviour) as (model, _):
        await model.complete(call(max_output_tokens=32_000))
    assert [it.json["max_tokens"] for it in behaviour.asked] == [32_000, 27_768, 27_767]


async def test_a_server_that_lowers_a_limit_for_ever_is_asked_until_it_names_no_lower_one() -> None:
    def answer(asked: AskedPrompt) -> ModelServerReply:
        (name,) = asked.json.keys() & {"max_tokens", "max_completion_tokens"}
        return refusal(400, f"max_tokens must be at most {asked.json[name] // 2}")

    async with serving(answer) as (model, server):
        with pytest.raises(ModelRefused):
            await model.complete(call(max_output_tokens=8_192))
        assert server.counts.calls < 10


async def test_a_known_maximum_is_never_exceeded() -> None:
    behaviour = RecordingBehaviour(in_turn(chat("done")))
    async with serving(behaviour) as (model, _):
        await model.complete(call(model="gpt-4o", max_output_tokens=90_000))
    assert behaviour.asked[0].json["max_tokens"] == 16_384


CACHED = {
    "prompt_tokens": 10_000,
    "completion_tokens": 1_000,
    "total_tokens": 11_000,
    "prompt_tokens_details": {"cached_tokens": 8_000},
    "completion_tokens_details": {"reasoning_tokens": 600},
}


async def test_cached_tokens_and_thinking_are_read_priced_and_reported() -> None:
    reply = in_turn(chat("done", usage=CACHED))
    async with serving(reply, provider="openai") as (model, _):
        usage = (await model.complete(call(model="gpt-5-mini"))).usage
    assert (usage.input_tokens, usage.cached_tokens) == (10_000, 8_000)
    assert (usage.output_tokens, usage.thinking_tokens) == (1_000, 600)
    dollars = (2_000 * 0.25 + 8_000 * 0.025 + 1_000 * 2) / 1_000_000
    assert usage.cost_usd == pytest.approx(dollars)


async def test_deepseeks_name_of_cached_tokens_is_read_too() -> None:
    counts = {"prompt_tokens": 900, "completion_tokens": 10, "prompt_cache_hit_tokens": 640}
    async with serving(in_turn(chat("done", usage=counts))) as (model, _):
        assert (await model.complete(call())).usage.cached_tokens == 640


@pytest.mark.parametrize("cached", [-1, 10**9, "many", None, {"tokens": 1}])
async def test_impossible_counts_of_cached_tokens_never_exceed_the_input(cached: object) -> None:
    counts = {**CACHED, "prompt_tokens_details": {"cached_tokens": cached}}
    async with serving(in_turn(chat("done", usage=counts))) as (model, _):
        usage = (await model.complete(call())).usage
    assert usage.cached_tokens in (0, usage.input_tokens)


def test_writing_to_the_cache_costs_more_and_reading_less() -> None:
    model = "anthropic:claude-haiku-4-5"
    assert cost_usd(model, 1_000_000, 0) == pytest.approx(1.0)
    assert cost_usd(model, 1_000_000, 0, cache_written=1_000_000) == pytest.approx(1.25)
    assert cost_usd(model, 1_000_000, 0, cached=1_000_000) == pytest.approx(0.1)
    assert cost_usd("openai:gpt-6.1-terra", 1_000, 0, cached=1_000) == pytest.approx(0.001)
