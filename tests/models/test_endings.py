"""Only a reply that ended well is used: how servers end replies, whole and streamed."""

import json
from typing import Any

import pytest

from benchmarks.model_replies import ModelServerReply, chat, events, refusal
from tests.models.calls import call, critique, in_turn, serving
from tests.models.test_anthropic import message, speaking
from workers.models.port import (
    ContentFiltered,
    ModelCall,
    ModelError,
    NotServed,
    ReplyCutOff,
    UnreadableReply,
)

GOOD = (
    "stop",
    "STOP",
    "eos",
    "eos_token",
    "end_turn",
    "stop_sequence",
    "COMPLETE",
    "endTurn",
    "",
    None,
)
CUT_OFF = (
    *("length", "max_tokens", "MAX_TOKENS", "model_length", "max_output_tokens", "MaxTokens"),
    *("max_output", "LENGTH", "model_context_window_exceeded", "token_limit", "maxOutputTokens"),
)
WITHHELD = (
    *("content_filter", "content-filter", "content_filter: PROHIBITED_CONTENT", "SAFETY"),
    *("sensitive", "guardrail_intervened", "content_filtered", "RECITATION", "refusal"),
    *("content_policy_violation", "IMAGE_SAFETY"),
)
BROKEN = (
    *("insufficient_system_resource", "network_error", "abort", "error", "tool_calls"),
    *("function_call", "OTHER", "cancelled", "time_limit", "MALFORMED_FUNCTION_CALL"),
    *("incomplete", "not_finished", "unknown", "preempted", "budget_exhausted", "0"),
    *(
        "\u957f\u5ea6\u9650\u5236",
        "\u043e\u0448\u0438\u0431\u043a\u0430",
        "-1",
        "FINISH_REASON_UNSPECIFIED",
    ),
)
ENDINGS: list[tuple[str | None, type[Exception] | None]] = [
    *[(it, None) for it in GOOD],
    *[(it, ReplyCutOff) for it in CUT_OFF],
    *[(it, ContentFiltered) for it in WITHHELD],
    *[(it, NotServed) for it in BROKEN],
]


def whole(ending: str | None, text: str = "Dear customer.") -> ModelServerReply:
    return chat("", choices=[{"message": {"content": text}, "finish_reason": ending}])


def streamed(ending: str | None, text: str = "Dear customer.") -> ModelServerReply:
    choices: list[dict[str, Any]] = [
        {"delta": {"content": text}, "finish_reason": None},
        {"delta": {}, "finish_reason": ending},
    ]
    lines = [b"data: " + json.dumps({"choices": [it]}).encode() + b"\n\n" for it in choices]
    return events(*lines, b"data: [DONE]\n\n")


def streamed_message(ending: str | None) -> ModelServerReply:
    said = [
        {"type": "message_start", "message": {"model": "claude"}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Dear."}},
        {"type": "message_delta", "delta": {"stop_reason": ending}, "usage": {}},
        {"type": "message_stop"},
    ]
    return events(*(b"data: " + json.dumps(it).encode() + b"\n\n" for it in said))


async def raised(
    reply: ModelServerReply, asked: ModelCall, **how: Any
) -> tuple[ModelError | NotServed | None, int]:
    """Return the failure of a call, None if it has none, and how many requests it took."""
    async with serving(in_turn(reply), **how) as (model, server):
        try:
            await model.complete(asked)
        except (ModelError, NotServed) as error:
            return error, server.counts.calls
        return None, server.counts.calls


@pytest.mark.parametrize(("ending", "expected"), ENDINGS)
@pytest.mark.parametrize("made", [whole, streamed])
async def test_a_completion_is_used_if_it_ended_well(
    made: Any, ending: str | None, expected: type[Exception] | None
) -> None:
    asked = call(expected_output_tokens=1_000_000 if made is streamed else 0)
    error, calls = await raised(made(ending), asked)
    assert (error and type(error), calls) == (expected, 1)


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        *[(it, None) for it in ("end_turn", "stop_sequence")],
        *[(it, ReplyCutOff) for it in ("max_tokens", "model_context_window_exceeded")],
        ("refusal", ContentFiltered),
        *[
            (it, NotServed)
            for it in ("tool_use", "pause_turn", None, "of tomorrow", "0", "\u505c\u6b62")
        ],
        ("max_context_tokens", ReplyCutOff),
        ("safety_refusal", ContentFiltered),
    ],
)
async def test_a_message_is_used_if_it_ended_well(
    ending: str | None, expected: type[Exception] | None
) -> None:
    for made in (message("Dear.", stop_reason=ending), streamed_message(ending)):
        asked = call(expected_output_tokens=1_000_000)
        error, _ = await raised(made, asked, speaking=speaking)
        assert (error and type(error)) == expected


async def test_a_reply_that_never_ends_well_fails_with_its_ending_and_what_it_took() -> None:
    error, _ = await raised(whole("abort"), call(tries=2))
    assert isinstance(error, UnreadableReply)
    assert "'abort'" in error.detail
    assert error.usage.output_tokens == 300


@pytest.mark.parametrize("reply", [whole("stop", ""), streamed("stop", "")])
async def test_a_good_ending_without_a_text_is_asked_for_again(reply: ModelServerReply) -> None:
    error, _ = await raised(reply, call(expected_output_tokens=1_000_000))
    assert isinstance(error, NotServed)


async def test_a_reply_that_azure_withholds_without_a_message_is_not_asked_for_again() -> None:
    withheld = chat("", choices=[{"index": 0, "finish_reason": "content_filter"}])
    assert type((await raised(withheld, call()))[0]) is ContentFiltered


async def test_json_that_a_server_could_not_validate_is_asked_for_again_in_the_same_form() -> None:
    said = "Failed to validate JSON against the schema. See 'failed_generation'."
    failed = refusal(400, said, code="json_validate_failed", failed_generation='{"scores":')
    error, calls = await raised(failed, critique())
    assert isinstance(error, NotServed)
    assert calls == 1
    assert not error.is_outage
    last, _ = await raised(failed, critique(tries=2))
    assert isinstance(last, UnreadableReply)
