"""What an error of a provider means: whether the call can never work, or what it waits for.

Providers differ in status, `error.code`, `error.type` and words, so all four are read: first what
is certain for this call (content, length, model), then what concerns the key or the account, then
the status alone. Sources: the error pages of OpenAI, Anthropic, Azure, Gemini, Bedrock and
OpenRouter, and the errors of vLLM, llama.cpp, Ollama and LiteLLM.
"""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, get_args

from pydantic_core import from_json

from app.contract.waiting import WaitReason
from workers.models.port import (
    BrokenReply,
    ContentFiltered,
    LimitOf,
    ModelError,
    ModelRefused,
    NotServed,
    PromptTooLong,
    ReportedLimit,
    UnknownModel,
)
from workers.models.streaming import failed
from workers.outbound.transport import ErrorResponse, retry_after_s

CODE_FIELDS = ("code", "type", "status", "error_code", "reason", "__type")

FILTERED = frozenset(
    {
        *("content_filter", "content_policy_violation", "responsibleaipolicyviolation"),
        *("content_filtered", "contentfilterviolation", "data_inspection_failed"),
        *("sensitive_content", "prohibited_content", "moderation_blocked", "invalid_prompt"),
    }
)
FILTERED_WORDS = re.compile(
    r"content (management|filtering) policy|content[ _-]?policy|contentpolicyviolation"
    r"|blocked by (the |our )?content filter|safety (system|filter)|flagged (as|by|for) "
)
TOO_LONG = frozenset(
    {
        *("context_length_exceeded", "string_above_max_length", "request_too_large"),
        *("exceed_context_size_error", "context_window_exceeded", "input_too_long"),
        *("model_max_prompt_tokens_exceeded", "contextwindowexceedederror"),
    }
)
TOO_LONG_WORDS = re.compile(
    r"maximum context length|prompt is too long|exceeds? the available context size"
    r"|context (window|length|size)|input is too long|input length and `?max_tokens`? exceed"
    r"|maximum (prompt|input) (length|tokens)|input token count .* exceeds|longer than the (maximum"
    r"|model)|request too large for|too many input tokens|contextwindowexceeded"
)
NO_MODEL = frozenset(
    {
        *("model_not_found", "deploymentnotfound", "unknown_model", "invalid_model"),
        *("model_not_available", "unsupported_model", "model_not_supported"),
        *("modelnotfound", "model_deprecated", "model_decommissioned"),
    }
)
NO_MODEL_WORDS = re.compile(
    r"\bmodels?\b.{0,120}(not found|does not exist|not exist|is not available|decommissioned)"
    r"|(not found|no such|unknown|invalid|unsupported)[,: ]+(the )?model"
    r"|not a valid model|model identifier is invalid|(^|\s)model: \S+$|invalid model name"
    r"|do(es)? not have access to (the )?model"
)
QUOTA = frozenset(
    {
        *("insufficient_quota", "billing_hard_limit_reached", "billing_not_active"),
        *("billing_error", "enforced_spend_limit_reached", "insufficient_balance"),
        *(
            "insufficient_user_quota",
            "budget_exceeded",
            "insufficient_credits",
            "access_terminated",
        ),
    }
)
QUOTA_WORDS = re.compile(
    r"credit balance is too low|insufficient (balance|credit|fund|quota)|billing hard limit"
    r"|specified api usage limits|spend(ing)? limit|budget has been exceeded|exceededbudget"
    r"|check your billing|more credits|out of credits|payment required"
)
BAD_KEY = frozenset(
    {
        *("invalid_api_key", "authentication_error", "api_key_invalid", "unauthenticated"),
        *("invalid_authentication", "account_deactivated", "unrecognizedclientexception"),
        *("expiredtokenexception", "accessdeniedexception", "permission_denied", "invalid_issuer"),
    }
)
BAD_KEY_WORDS = re.compile(
    r"api[ _-]?key.{0,40}(not valid|invalid|expired|revoked)|invalid api key"
)
OVERLOADED = frozenset(
    {
        *("overloaded_error", "server_is_overloaded", "slow_down", "unavailable"),
        *("engine_overloaded", "model_overloaded", "serviceunavailableexception"),
    }
)
THROTTLED = frozenset(
    {"rate_limit_exceeded", "rate_limit_error", "resource_exhausted", "throttlingexception"}
)
BAD_GENERATION = frozenset({"json_validate_failed", "tool_use_failed", "output_parse_failed"})
"""Groq's codes, with status 400, for a reply of the model that is not in the form asked for."""
OF_CLIENT = frozenset({400, 403, 404, 413, 422})
BY_STATUS: Mapping[int, WaitReason] = {
    **dict.fromkeys((408, 409, 423, 424, 425, 499), "error"),
    429: "rate_limited",
    **dict.fromkeys((498, 503, 529), "overloaded"),
    **dict.fromkeys((302, 303, 307), "unreachable"),
    **dict.fromkeys((502, 504, 521, 522, 523, 524), "unreachable"),
}
"""The reason by status alone.

424 is Bedrock's for a model that failed, 498 Groq's for a lack of capacity, 499 Google's for a call
that was cancelled. A temporary redirect is a page to log in to a network, or of a server under
maintenance. Those above 520 are Cloudflare's, which does not reach the server.
"""

LONGEST_RETRY_AFTER_S = 3_600.0
"""No server is believed that asks for more: one wrong number would stop its model for years."""

MINUTES = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def failure_of(response: ErrorResponse, detail: str) -> ModelError | NotServed:
    """Return what an error response means; `detail` is what to say about it."""
    codes, words = _codes_and_words(response.said)
    if codes & BAD_GENERATION:
        return BrokenReply(detail)
    if final := _final(response.status, codes, words):
        return final(detail)
    reason = _wait_reason(response.status, codes, words)
    if reason is None:
        return ModelRefused(detail)
    if reason == "rate_limited" and response.fields.get("x-should-retry") == "false":
        reason = "quota_exhausted"
    asked_s = retry_after_s(response.fields)
    return NotServed(
        reason,
        detail,
        retry_after_s=None if asked_s is None else min(asked_s, LONGEST_RETRY_AFTER_S),
        limits=reported_limits(response.fields),
    )


def failure_in(body: bytes, host: str) -> ModelError | NotServed | None:
    """Return the failure that a response with status 200 is, None if it may be a reply.

    OpenRouter and LiteLLM send the error of the server behind them in this way, beside or within
    the choices. A page is from a network that wants a login, or from a proxy.
    """
    if body.lstrip()[:1] == b"<":
        return NotServed(
            "unreachable", f"{host} answered with a page, which is no reply of a model"
        )
    try:
        said = from_json(body)
    except ValueError:
        return None
    error = _error_in(said)
    if not error:
        return None
    found = failed(error)
    detail = f"{host} failed while it answered: {found}"
    return failure_of(ErrorResponse(found.status, found.said, {}), detail)


def _error_in(said: object) -> object:
    if not isinstance(said, dict):
        return None
    choices = said.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return said.get("error") or (first.get("error") if isinstance(first, dict) else None)


def is_bad_generation(said: str) -> bool:
    """Return whether an error is about what the model wrote, and not about the request."""
    return bool(_codes_and_words(said)[0] & BAD_GENERATION)


def _final(status: int, codes: frozenset[str], words: str) -> type[ModelError] | None:
    """Return the error of a call that can never work, None if it may."""
    if status == 429:
        # A single request above the tokens of a minute is refused however long one waits.
        return PromptTooLong if "request too large for" in words else None
    if status not in OF_CLIENT and not (status == 500 and codes & TOO_LONG):
        return None
    if codes & FILTERED or FILTERED_WORDS.search(words):
        return ContentFiltered
    if status == 413 or codes & TOO_LONG or TOO_LONG_WORDS.search(words):
        return PromptTooLong
    if codes & NO_MODEL or (status != 403 and NO_MODEL_WORDS.search(words)):
        return UnknownModel
    return None


def _wait_reason(status: int, codes: frozenset[str], words: str) -> WaitReason | None:
    if status == 402 or codes & QUOTA:
        return "quota_exhausted"
    if QUOTA_WORDS.search(words) and (status != 429 or not codes & THROTTLED):
        return "quota_exhausted"
    if status in {401, 403, 407} or (status == 400 and _names_the_key(codes, words)):
        return "unauthorized"
    if codes & THROTTLED and status in {400, 503}:
        return "rate_limited"
    if status >= 500 and codes & OVERLOADED:
        return "overloaded"
    return BY_STATUS.get(status, "error" if status >= 500 else None)


def _names_the_key(codes: frozenset[str], words: str) -> bool:
    return bool(codes & BAD_KEY or BAD_KEY_WORDS.search(words))


def _codes_and_words(said: str) -> tuple[frozenset[str], str]:
    """Return the codes of an error, and its words, in lower case."""
    try:
        body = json.loads(said)
    except (ValueError, RecursionError):
        return frozenset(), said[:4_000].lower()
    codes, words = set[str](), list[str]()
    for where in _objects(body, depth=4):
        for name in CODE_FIELDS:
            if isinstance(value := where.get(name), str):
                codes.add(value.lower().rpartition("#")[2])
        words += [text for name in ("message", "detail", "error") if (text := _text(where, name))]
    return frozenset(codes), " ".join(words)[:4_000].lower()


def _text(where: Mapping[str, Any], name: str) -> str:
    value = where.get(name)
    return value if isinstance(value, str) else ""


def _objects(body: object, depth: int) -> Iterator[dict[str, Any]]:
    """Yield the objects in an error, the outermost first."""
    if isinstance(body, dict):
        yield body
    parts = body.values() if isinstance(body, dict) else body if isinstance(body, list) else ()
    for part in parts if depth else ():
        yield from _objects(part, depth - 1)


LIMIT_FIELDS: tuple[tuple[LimitOf, str, str, str], ...] = tuple(
    (of, form.format("limit", name), form.format("remaining", name), form.format("reset", name))
    for of, name in ((it, it.replace("_", "-")) for it in get_args(LimitOf))
    for form in ("x-ratelimit-{0}-{1}", "anthropic-ratelimit-{1}-{0}")
)
"""What is limited, and the header fields with the limit, what remains, and when it is reset."""


def reported_limits(fields: Mapping[str, str]) -> tuple[ReportedLimit, ...]:
    """Return the limits that the fields of a response report, in OpenAI's form or Anthropic's.

    What is missing or no number is left out. Anthropic's times are compared with the server's own
    `Date`.
    """
    if "ratelimit" not in " ".join(fields).lower():
        return ()
    found = []
    for of, of_limit, of_remaining, of_reset in LIMIT_FIELDS:
        if limit := fields.get(of_limit):
            remaining, reset = fields.get(of_remaining), fields.get(of_reset)
            if remaining and reset:
                found.append(_reported(of, limit, remaining, reset, fields.get("Date", "")))
    return tuple(it for it in found if it is not None)


def _reported(
    of: LimitOf, limit: str, remaining: str, reset: str, date: str
) -> ReportedLimit | None:
    try:
        most, left, reset_s = float(limit), float(remaining), _reset_s(reset, date)
    except (ValueError, TypeError, OverflowError):
        return None
    if not (0 < most < 1e12 and 0 <= left <= most and 0 <= reset_s < 40 * 86_400):
        return None
    return ReportedLimit(of, most, left, reset_s)


def _reset_s(reset: str, date: str) -> float:
    """Return the seconds of `6m0s`, `120ms`, `1.5`, or of a time in RFC 3339."""
    parts = MINUTES.findall(reset)
    if parts and "".join(number + unit for number, unit in parts) == reset:
        return sum(float(number) * SECONDS[unit] for number, unit in parts)
    if "T" not in reset:
        return float(reset)
    at = datetime.fromisoformat(reset)
    return max(0.0, (at - _server_time(date)).total_seconds())


def _server_time(date: str) -> datetime:
    try:
        return parsedate_to_datetime(date)
    except ValueError:
        return datetime.now(UTC)
