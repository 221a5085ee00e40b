"""Spans of steps, by OpenTelemetry's conventions for generative AI (semantic conventions 1.4x).

One span is one step: the call of a model with its waits, refusals and fallbacks as events, a check
of a draft, or the call of a tool. A step that is replayed has none. Texts are added only if the
process is asked for them, and the request lets them be stored.
"""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

from app.contract.events import StepCompleted, StepFailed, TextReply, ToolReply
from app.contract.judgement import FindingsReply
from app.contract.models import ModelChoice, seat_at
from app.telemetry import TraceSpan, current_span
from app.telemetry.traces import Attribute, Attributes
from workers.engine.moves import Ask, Call, Check, StepMove
from workers.models.port import ModelError, ModelReply, ModelWaits

PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}
"""Well-known names of the convention for providers that are usually named otherwise."""


def step_span(
    move: StepMove, choices: Mapping[str, ModelChoice]
) -> AbstractContextManager[TraceSpan]:
    """Begin the span of a step; it is the current one until the context ends."""
    now = current_span()
    if not now.is_recorded:
        return nullcontext(now)
    path: Attributes = {"hone.step": move.path}
    match move:
        case Ask():
            choice = choices[seat_at(choices, move.seat, move.path)]
            prompt, most = move.prompt, move.max_output_tokens or choice.max_output_tokens
            heat = prompt.temperature if choice.temperature is None else choice.temperature
            is_text = prompt.schema is None
            name, asked = _asked(choice.model, prompt.name, move.role, heat, most, is_text)
            return now.child(name, "client", path, asked)
        case Call():
            told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": move.tool}
            return now.child(f"execute_tool {move.tool}", "client", path, told)
        case Check():
            return now.child("check", "internal", path)


@lru_cache(1_024, typed=True)
def _asked(
    model: str, prompt: str, role: str, heat: float | None, most: int | None, is_text: bool
) -> tuple[str, Attributes]:
    """Return name and first attributes of the span of a call."""
    told: Attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": _provider_in(model),
        "gen_ai.request.model": _name_in(model),
        "gen_ai.request.temperature": heat,
        "gen_ai.request.max_tokens": most,
        "gen_ai.output.type": "text" if is_text else "json",
        "gen_ai.prompt.name": prompt,
        "hone.role": role,
    }
    return f"chat {_name_in(model)}", told


def describe_entry(
    span: TraceSpan, move: StepMove, entry: StepCompleted | StepFailed, *, is_stored: bool
) -> None:
    """Add to the span of a step what came of it, texts if they are wanted and may be stored."""
    if not span.is_recorded:
        return
    if isinstance(move, Ask):
        used = entry.usage
        span.set(
            {
                "gen_ai.usage.input_tokens": used.input_tokens,
                "gen_ai.usage.output_tokens": used.output_tokens,
                "gen_ai.usage.cache_read.input_tokens": used.cached_tokens or None,
                "gen_ai.usage.reasoning.output_tokens": used.thinking_tokens or None,
                "hone.requests": used.calls if used.calls != 1 else None,
                "hone.cost_usd": used.cost_usd,
            }
        )
    if span.has_content and is_stored:
        span.set(_texts(move, entry))
    if isinstance(entry, StepFailed):
        span.set({}, error=entry.code)
        return
    match entry.reply:
        case TextReply() if entry.model is not None:
            is_fallback = bool(entry.tried)
            span.set(_answered(entry.model, is_fallback=is_fallback))
        case FindingsReply():
            span.set({"hone.findings": len(entry.reply.findings)})
        case ToolReply(ok=False):
            span.set({}, error="tool_failed")


@lru_cache(1_024)
def _answered(model: str, *, is_fallback: bool) -> Attributes:
    """Return which model answered; a fallback may be of another provider."""
    told: dict[str, Attribute] = {"gen_ai.response.model": _name_in(model)}
    if is_fallback:
        told["gen_ai.provider.name"] = _provider_in(model)
    return told


def describe_reply(reply: ModelReply) -> None:
    """Add why the model stopped, which no journal has, to the step that goes on."""
    span = current_span()
    if span.is_recorded and reply.finish_reason is not None:
        span.set({"gen_ai.response.finish_reasons": (reply.finish_reason,)})


def describe_refusal(model: str, error: ModelError | ModelWaits) -> None:
    """Note that a model did not answer, as an event of the step that goes on."""
    span = current_span()
    if not span.is_recorded:
        return
    if isinstance(error, ModelError):
        span.event("model failed", {"gen_ai.request.model": model, "error.type": error.code})
        return
    told: Attributes = {
        "gen_ai.request.model": model,
        "hone.reason": error.reason,
        "hone.wait_s": round(error.wait_s, 3),
        "hone.breaker_open": error.is_open,
    }
    span.event("model does not serve now", told)


def describe_ending(span: TraceSpan, told: Mapping[str, Any]) -> None:
    """Add to the span of a claim how the refinement ended, or that it was paused."""
    if span.is_recorded:
        ending = {f"hone.{name}": value for name, value in told.items()}
        span.set(ending, error=told["error"])


def _texts(move: StepMove, entry: StepCompleted | StepFailed) -> dict[str, str]:
    """Return what was said to a model or a tool and what it answered."""
    reply = entry.reply if isinstance(entry, StepCompleted) else None
    if isinstance(move, Call):
        told = {"gen_ai.tool.call.arguments": json.dumps(move.arguments, ensure_ascii=False)}
        if isinstance(reply, ToolReply):
            told["gen_ai.tool.call.result"] = reply.text
        return told
    if not isinstance(move, Ask):
        return {}
    told = {
        "gen_ai.system_instructions": json.dumps([_part(move.prompt.system)], ensure_ascii=False),
        "gen_ai.input.messages": _messages("user", move.prompt.user),
    }
    if isinstance(reply, TextReply):
        told["gen_ai.output.messages"] = _messages("assistant", reply.text)
    return told


def _messages(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [_part(text)]}], ensure_ascii=False)


def _part(text: str) -> dict[str, str]:
    return {"type": "text", "content": text}


def _provider_in(model: str) -> str:
    provider = model.partition(":")[0]
    return PROVIDERS.get(provider, provider)


def _name_in(model: str) -> str:
    return model.partition(":")[2]
