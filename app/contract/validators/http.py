"""The validator that calls an endpoint of the caller."""

from typing import Literal

from app.contract.endpoints import Endpoint
from app.contract.validators import ENDPOINTS, ScoringValidator


class HttpValidator(ScoringValidator, Endpoint):
    """The caller's own endpoint decides whether the draft passes.

    It receives `{"draft": "..."}` by POST, signed according to Standard Webhooks, with an
    `Idempotency-Key` made of refinement and step, and must answer 2xx with `{"passed": true}` or
    `{"passed": false, "findings": [{"message", "fix", "span", "quote"}]}`; only `message` is
    required. With `score` the answer has a `"score"` from 0 to 1, and may leave out `passed`. Only
    public addresses and those in HONE_OUTBOUND_ALLOW are called, and redirects are not followed.
    While the endpoint is away the refinement waits; any other error fails the step.
    """

    needs = ENDPOINTS

    kind: Literal["http"]
