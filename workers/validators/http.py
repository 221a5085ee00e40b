"""The `http` validator: a client's endpoint decides whether a draft passes."""

import json

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.contract.judgement import Span
from app.contract.validators.http import HttpValidator
from workers.outbound.guarded_client import EndpointClient, EndpointUnavailable
from workers.validators.violation import ValidatorUnavailable, Violation, shortened

MAX_VIOLATIONS = 20
MAX_WORDS = 500


class Found(BaseModel):
    """One finding of an endpoint; unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, strict=True)

    message: str = Field(min_length=1)
    fix: str | None = None
    span: Span | None = None
    quote: str | None = None


class EndpointVerdict(BaseModel):
    """The answer of an endpoint."""

    model_config = ConfigDict(frozen=True, strict=True)

    passed: bool
    findings: tuple[Found, ...] = ()


async def check_http(
    validator: HttpValidator, draft: str, endpoints: EndpointClient, key: str
) -> tuple[Violation, ...]:
    """Return the findings of the endpoint; none for a draft that it passes.

    Raises `ValidatorUnavailable` when there is no answer, or an invalid one.
    """
    body = json.dumps({"draft": draft}, ensure_ascii=False).encode()
    try:
        reply = await endpoints.post(validator.url, body, key, validator.timeout_s)
    except EndpointUnavailable as error:
        raise ValidatorUnavailable(f"the endpoint gave no verdict: {error.detail}") from None
    try:
        verdict = EndpointVerdict.model_validate_json(reply)
    except ValidationError as error:
        flaw = error.errors(include_input=False, include_url=False)[0]
        where = "/".join(map(str, flaw["loc"])) or "the reply"
        raise ValidatorUnavailable(
            'invalid answer of the endpoint, expected {"passed", "findings"}: '
            f"{where}: {flaw['msg']}"
        ) from None
    if verdict.passed:
        return ()
    found = tuple(_violation(each, draft) for each in verdict.findings[:MAX_VIOLATIONS])
    return found or (Violation("the endpoint rejected the draft", "see its requirements"),)


def _violation(found: Found, draft: str) -> Violation:
    span = found.span
    is_within = span is not None and span.start <= span.end <= len(draft)
    return Violation(
        shortened(found.message, MAX_WORDS),
        shortened(found.fix, MAX_WORDS) if found.fix else "meet the endpoint's requirement",
        span=(span.start, span.end) if span and is_within else None,
        quote=found.quote
        if found.quote and len(found.quote) <= 200 and found.quote in draft
        else None,
    )
