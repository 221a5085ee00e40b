"""Errors as providers send them: which fail a call, and which it waits for."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.models.port import ModelError, NotServed, ReportedLimit
from workers.models.remote import failure_in, failure_of, reported_limits
from workers.outbound.transport import ErrorResponse, Request


def openai(message: str, code: str | None = None, kind: str = "invalid_request_error") -> Any:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def anthropic(kind: str, message: str, **more: Any) -> Any:
    error = {"type": kind, "message": message, **more}
    return {"type": "error", "error": error, "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy"}


def azure(code: str, message: str) -> Any:
    return {"error": {"code": code, "message": message}}


def gemini(code: int, status: str, message: str, **details: str) -> Any:
    error = {"code": code, "message": message, "status": status, "details": [details]}
    return [{"error": error}]


def vllm(code: int, kind: str, message: str) -> Any:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def litellm(code: int, message: str) -> Any:
    return {"error": {"message": message, "type": None, "param": None, "code": str(code)}}


AZURE_FILTER = {
    "error": {
        "message": "The response was filtered due to the prompt triggering Azure OpenAI's content"
        " management policy. Please modify your prompt and retry.",
        "type": None,
        "param": "prompt",
        "code": "content_filter",
        "status": 400,
        "innererror": {
            "code": "ResponsibleAIPolicyViolation",
            "content_filter_result": {"hate": {"filtered": True, "severity": "high"}},
        },
    }
}

RESPONSES: list[tuple[int, Any, str]] = [
    # OpenAI
    (401, openai("Incorrect API key provided: ***.", "invalid_api_key"), "unauthorized"),
    (401, openai("You must be a member of an organization to use the API"), "unauthorized"),
    (
        403,
        openai("Country, region, or territory not supported", "unsupported_country_region"),
        "unauthorized",
    ),
    (404, openai("The model `gpt-9` does not exist", "model_not_found"), "unknown_model"),
    (
        403,
        openai("Project `p` does not have access to model `o3`", "model_not_found"),
        "unknown_model",
    ),
    (404, openai("The model `gpt-4-32k` has been deprecated", "model_not_found"), "unknown_model"),
    (404, openai("Invalid URL (POST /v1/chat/completion)"), "model_refused"),
    (
        400,
        openai(
            "This model's maximum context length is 128000 tokens. However, your messages resulted"
            " in 140012 tokens.",
            "context_length_exceeded",
        ),
        "prompt_too_long",
    ),
    (400, openai("Invalid 'messages[1].content'", "string_above_max_length"), "prompt_too_long"),
    (
        429,
        openai("Rate limit reached for gpt-4o on requests per min (RPM)", "rate_limit_exceeded"),
        "rate_limited",
    ),
    (
        429,
        openai("Rate limit reached on tokens per min", "rate_limit_exceeded", "tokens"),
        "rate_limited",
    ),
    (
        429,
        openai(
            "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40123.",
            "rate_limit_exceeded",
            "tokens",
        ),
        "prompt_too_long",
    ),
    (
        429,
        openai(
            "You exceeded your current quota, please check your plan and billing details.",
            "insufficient_quota",
            "insufficient_quota",
        ),
        "quota_exhausted",
    ),
    (
        400,
        openai("Billing hard limit has been reached", "billing_hard_limit_reached"),
        "quota_exhausted",
    ),
    (429, openai("Your account is not active", "billing_not_active"), "quota_exhausted"),
    (
        400,
        openai("Your request was rejected by our safety system", "content_policy_violation"),
        "content_filtered",
    ),
    (
        400,
        openai(
            "Invalid prompt: your prompt was flagged as potentially violating", "invalid_prompt"
        ),
        "content_filtered",
    ),
    (400, openai("max_tokens is too large: 200000.", "invalid_value"), "model_refused"),
    (400, openai("Unsupported parameter: 'seed'", "unsupported_parameter"), "model_refused"),
    (500, openai("The server had an error", None, "server_error"), "error"),
    (503, openai("The engine is currently overloaded", None, "server_error"), "overloaded"),
    (503, openai("Slow Down", "slow_down"), "overloaded"),
    (502, "<html><h1>502 Bad Gateway</h1></html>", "unreachable"),
    # Anthropic
    (401, anthropic("authentication_error", "invalid x-api-key"), "unauthorized"),
    (403, anthropic("permission_error", "Your API key lacks permission"), "unauthorized"),
    (404, anthropic("not_found_error", "model: claude-9"), "unknown_model"),
    (404, anthropic("not_found_error", "Not found"), "model_refused"),
    (
        400,
        anthropic("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        "prompt_too_long",
    ),
    (
        400,
        anthropic(
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        ),
        "prompt_too_long",
    ),
    (413, anthropic("request_too_large", "Request exceeds the maximum size"), "prompt_too_long"),
    (413, "<html>413 Request Entity Too Large - cloudflare</html>", "prompt_too_long"),
    (
        400,
        anthropic(
            "invalid_request_error",
            "Your credit balance is too low to access the Anthropic API.",
        ),
        "quota_exhausted",
    ),
    (
        400,
        anthropic("invalid_request_error", "You have reached your specified API usage limits."),
        "quota_exhausted",
    ),
    (
        429,
        anthropic(
            "rate_limit_error",
            "Monthly limit reached",
            details={"error_code": "enforced_spend_limit_reached"},
        ),
        "quota_exhausted",
    ),
    (402, anthropic("billing_error", "There is an issue with your billing"), "quota_exhausted"),
    (
        429,
        anthropic(
            "rate_limit_error",
            "This request would exceed your organization's rate limit of 80,000 input tokens per"
            " minute",
        ),
        "rate_limited",
    ),
    (529, anthropic("overloaded_error", "Overloaded"), "overloaded"),
    (500, anthropic("api_error", "Internal server error"), "error"),
    (504, anthropic("timeout_error", "Request timed out"), "unreachable"),
    (
        400,
        anthropic("invalid_request_error", "Output blocked by content filtering policy"),
        "content_filtered",
    ),
    (400, anthropic("invalid_request_error", "messages: roles must alternate"), "model_refused"),
    # Azure
    (400, AZURE_FILTER, "content_filtered"),
    (404, azure("DeploymentNotFound", "The API deployment does not exist."), "unknown_model"),
    (401, azure("401", "Access denied due to invalid subscription key"), "unauthorized"),
    (403, azure("403", "Access denied due to Virtual Network/Firewall rules."), "unauthorized"),
    (
        429,
        azure("429", "Requests have exceeded call rate limit. Please retry after 6 seconds."),
        "rate_limited",
    ),
    (404, azure("404", "Resource not found"), "model_refused"),
    # Gemini
    (
        400,
        gemini(400, "INVALID_ARGUMENT", "API key not valid.", reason="API_KEY_INVALID"),
        "unauthorized",
    ),
    (
        429,
        gemini(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, check your billing"),
        "rate_limited",
    ),
    (
        404,
        gemini(404, "NOT_FOUND", "models/gemini-x is not found for API version v1beta"),
        "unknown_model",
    ),
    (503, gemini(503, "UNAVAILABLE", "The model is overloaded."), "overloaded"),
    (
        400,
        gemini(
            400,
            "INVALID_ARGUMENT",
            "The input token count (1200000) exceeds the maximum number of tokens allowed",
        ),
        "prompt_too_long",
    ),
    # Bedrock
    (429, {"message": "Too many tokens, please wait before trying again."}, "rate_limited"),
    (
        400,
        {"__type": "com.amazon.coral#ThrottlingException", "message": "Too many requests"},
        "rate_limited",
    ),
    (400, {"message": "The provided model identifier is invalid."}, "unknown_model"),
    (400, {"message": "Input is too long for requested model."}, "prompt_too_long"),
    (403, {"Message": "User is not authorized to perform: bedrock:InvokeModel"}, "unauthorized"),
    # vLLM, llama.cpp, Ollama
    (404, vllm(404, "NotFoundError", "The model `x` does not exist."), "unknown_model"),
    (
        400,
        vllm(400, "BadRequestError", "This model's maximum context length is 4096 tokens."),
        "prompt_too_long",
    ),
    (
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size, try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 9000,
                "n_ctx": 4096,
            }
        },
        "prompt_too_long",
    ),
    (
        503,
        {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}},
        "overloaded",
    ),
    (404, {"error": "model 'llama9' not found"}, "unknown_model"),
    (404, {"error": 'model "llama9" not found, try pulling it first'}, "unknown_model"),
    (500, {"error": "llama runner process has terminated: exit status 2"}, "error"),
    (503, {"error": "server busy, please try again. maximum pending requests"}, "overloaded"),
    (404, "404 page not found", "model_refused"),
    # LiteLLM, OpenRouter and other gateways
    (
        400,
        litellm(
            400,
            "litellm.ContentPolicyViolationError: AzureException - The response was filtered",
        ),
        "content_filtered",
    ),
    (
        400,
        litellm(400, "litellm.ContextWindowExceededError: This model's maximum is 8192"),
        "prompt_too_long",
    ),
    (
        400,
        litellm(400, "Invalid model name passed in model=gpt-9. Call `/v1/models`"),
        "unknown_model",
    ),
    (
        400,
        litellm(400, "Budget has been exceeded! Current cost: 12, Max budget: 10"),
        "quota_exhausted",
    ),
    (429, litellm(429, "litellm.RateLimitError: No deployments available"), "rate_limited"),
    (402, {"error": {"code": 402, "message": "Insufficient credits"}}, "quota_exhausted"),
    (400, {"error": {"code": 400, "message": "x/y is not a valid model ID"}}, "unknown_model"),
    (402, openai("Insufficient Balance"), "quota_exhausted"),
    (522, "<title>522: Connection timed out</title>", "unreachable"),
    (408, "", "error"),
    (409, "conflict", "error"),
    (425, "", "error"),
    (407, "proxy authentication required", "unauthorized"),
    (302, "<a href='http://login.example'>Log in</a>", "unreachable"),
    (307, "", "unreachable"),
    (308, "", "model_refused"),
    (424, {"message": "The model failed"}, "error"),
    (498, openai("Flex tier capacity exceeded", "capacity_exceeded"), "overloaded"),
    (499, gemini(499, "CANCELLED", "The operation was cancelled."), "error"),
    (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, "model_refused"),
    # other languages, and nonsense
    (429, "请求过于频繁", "rate_limited"),
    (
        400,
        {"error": {"message": "Превышен лимит", "code": "context_length_exceeded"}},
        "prompt_too_long",
    ),
    (401, {"error": {"message": "Ungültiger Schlüssel ������"}}, "unauthorized"),
    (400, "\ud800 lone", "model_refused"),
    (500, "[" * 100_000, "error"),
    (503, {"error": None}, "overloaded"),
    (400, {"error": {"message": ["a", "b"], "code": 7}}, "model_refused"),
    (429, "null", "rate_limited"),
]


def meaning(status: int, said: Any, **fields: str) -> ModelError | NotServed:
    body = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    return failure_of(ErrorResponse(status, body, fields), "the detail")


@pytest.mark.parametrize(("status", "said", "expected"), RESPONSES)
def test_a_providers_error_fails_the_call_or_lets_it_wait(
    status: int, said: Any, expected: str
) -> None:
    error = meaning(status, said)
    assert (error.reason if isinstance(error, NotServed) else error.code) == expected
    assert error.detail == "the detail"


def test_a_429_that_forbids_a_retry_is_one_of_the_quota() -> None:
    error = meaning(429, "", **{"x-should-retry": "false"})
    assert isinstance(error, NotServed)
    assert error.reason == "quota_exhausted"


def test_the_time_that_a_server_asks_for_is_kept() -> None:
    error = meaning(429, "", **{"retry-after-ms": "250", "Retry-After": "1"})
    assert isinstance(error, NotServed)
    assert error.retry_after_s == 0.25


def test_no_server_stops_its_model_for_years() -> None:
    error = meaning(429, "", **{"Retry-After": "2147483647"})
    assert isinstance(error, NotServed)
    assert error.retry_after_s == 3_600


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"error": {"code": 502, "message": "Provider returned error"}}', "unreachable"),
        ('{"error": {"code": 429, "message": "Rate limit exceeded"}}', "rate_limited"),
        ('{"error": {"code": "insufficient_quota", "message": "Pay"}}', "quota_exhausted"),
        ('{"error": {"code": 403, "message": "flagged by moderation"}}', "content_filtered"),
        ('{"error": "upstream is down"}', "error"),
        ('{"choices": [{"error": {"code": 503, "message": "busy"}}]}', "overloaded"),
        ('{"type": "error", "error": {"type": "overloaded_error", "message": "x"}}', "overloaded"),
        (" <!DOCTYPE html><p>Please log in to the Wi-Fi", "unreachable"),
        ('{"choices": []}', None),
        ('{"error": null, "choices": [1]}', None),
        ("[]", None),
        ("not JSON", None),
        ("", None),
    ],
)
def test_a_failure_with_status_200_is_known_as_one(body: str, expected: str | None) -> None:
    error = failure_in(body.encode(), Request("https://api.example/v1", {}, b"", secret="e"))
    if error is None:
        assert expected is None
    else:
        assert (error.reason if isinstance(error, NotServed) else error.code) == expected
        assert "api.example" in error.detail


@given(st.integers(300, 599), st.text())
def test_no_error_is_too_odd_to_be_understood(status: int, said: str) -> None:
    assert isinstance(meaning(status, said), ModelError | NotServed)


OPENAI = {
    "x-ratelimit-limit-requests": "500",
    "x-ratelimit-remaining-requests": "499",
    "x-ratelimit-reset-requests": "120ms",
    "x-ratelimit-limit-tokens": "30000",
    "x-ratelimit-remaining-tokens": "15000",
    "x-ratelimit-reset-tokens": "6m0.5s",
}
ANTHROPIC = {
    "Date": "Sun, 22 Nov 2026 12:00:00 GMT",
    "anthropic-ratelimit-input-tokens-limit": "80000",
    "anthropic-ratelimit-input-tokens-remaining": "60000",
    "anthropic-ratelimit-input-tokens-reset": "2026-11-22T12:00:15Z",
}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            OPENAI,
            (
                ReportedLimit("requests", 500, 499, 0.12),
                ReportedLimit("tokens", 30_000, 15_000, 360.5),
            ),
        ),
        (ANTHROPIC, (ReportedLimit("input_tokens", 80_000, 60_000, 15),)),
        ({}, ()),
        ({"x-ratelimit-limit-requests": "500"}, ()),
        (OPENAI | {"x-ratelimit-limit-requests": "many", "x-ratelimit-limit-tokens": "0"}, ()),
        (ANTHROPIC | {"anthropic-ratelimit-input-tokens-reset": "2026-11-22T12:00:15"}, ()),
        (ANTHROPIC | {"anthropic-ratelimit-input-tokens-remaining": "nan"}, ()),
    ],
)
def test_limits_are_read_from_the_fields_of_a_response(
    fields: Mapping[str, str], expected: tuple[ReportedLimit, ...]
) -> None:
    assert reported_limits(fields) == expected
