"""The `http` validator: a client's endpoint decides whether a draft passes."""

import json
from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.contract.judgement import Span
from app.contract.validators.http import HttpValidator
from workers.engine.replies.reader import first_flaw
from workers.outbound.guarded_client import EndpointClient, EndpointUnavailable, EndpointWaits
from workers.validators.violation import (
    MAX_VIOLATIONS,
    Measurement,
    ValidatorUnavailable,
    Violation,
    abbreviated,
)

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


class ScoringVerdict(EndpointVerdict):
    """The answer of an endpoint whose score counts; without `passed` the score is all it says."""

    score: float = Field(ge=0, le=1, allow_inf_nan=False)
    reason: str = ""
    passed: bool = True


async def check_http(
    validator: HttpValidator, draft: str, endpoints: EndpointClient, key: str
) -> tuple[Violation | Measurement, ...]:
    """Return the findings of the endpoint, none for a draft that it passes, and its score.

    Raises `ValidatorUnavailable` when there is no answer, or an invalid one, and `EndpointWaits`
    when the call is to be made again later.
    """
    body = json.dumps({"draft": draft}, ensure_ascii=False).encode()
    try:
        reply = await endpoints.post(validator, body, key)
    except EndpointWaits:
        raise
    except EndpointUnavailable as error:
        raise ValidatorUnavailable(f"the endpoint gave no verdict: {error.detail}") from None
    form = EndpointVerdict if validator.score is None else ScoringVerdict
    try:
        verdict = form.model_validate_json(reply)
    except ValidationError as error:
        flaw = first_flaw(error)
        raise ValidatorUnavailable(
            f"invalid answer of the endpoint, expected {_fields(form)}: {flaw}"
        ) from None
    return (*_measured(verdict), *_violations(verdict, draft))


def _fields(form: type[EndpointVerdict]) -> str:
    return "{" + ", ".join(f'"{name}"' for name in form.model_fields) + "}"


def _measured(verdict: EndpointVerdict) -> Iterator[Measurement]:
    if isinstance(verdict, ScoringVerdict):
        yield Measurement(verdict.score, abbreviated(verdict.reason, MAX_WORDS))


def _violations(verdict: EndpointVerdict, draft: str) -> Iterator[Violation]:
    if verdict.passed:
        return
    for each in verdict.findings[:MAX_VIOLATIONS]:
        yield _violation(each, draft)
    if not verdict.findings:
        yield Violation("the endpoint rejected the draft", "see its requirements")


def _violation(found: Found, draft: str) -> Violation:
    span = found.span
    is_within = span is not None and span.start <= span.end <= len(draft)
    return Violation(
        abbreviated(found.message, MAX_WORDS),
        abbreviated(found.fix, MAX_WORDS) if found.fix else "meet the endpoint's requirement",
        span=(span.start, span.end) if span and is_within else None,
        quote=found.quote
        if found.quote and len(found.quote) <= 200 and found.quote in draft
        else None,
    )
