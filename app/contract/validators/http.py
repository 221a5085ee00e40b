"""The validator that asks an endpoint of the caller."""

from typing import Literal

from app.contract.resources import ENDPOINTS
from app.contract.tools import TimeoutS, Url
from app.contract.validators import Validator


class HttpValidator(Validator):
    """The caller's own endpoint says whether the draft passes.

    It gets `{"draft": "..."}` by POST, signed as Standard Webhooks has it under HONE_SECRET_KEY,
    with an `Idempotency-Key` made of refinement and step, and answers 200 with `{"passed": true}`
    or `{"passed": false, "findings": [{"message", "fix", "span", "quote"}]}`; only `message` is
    required. Only public addresses are called, and redirects are not followed. An endpoint that
    does not answer fails the step.
    """

    needs = ENDPOINTS

    kind: Literal["http"]
    url: Url
    timeout_s: TimeoutS = 10
