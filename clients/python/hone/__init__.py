"""The client of Hone: refinement as an API.

    from hone import Hone

    with Hone("http://localhost:8080") as hone:
        result = hone.refine("In order to utilize the API, you must first register.", threshold=0.9)
        if not result.passed:
            print("not good enough:", result.reason)
        print(result.score, result.draft)

`Hone` and `AsyncHone` have the same methods.
"""

from hone.async_client import AsyncHone
from hone.client import Hone
from hone.errors import (
    ApiError,
    Conflict,
    Forbidden,
    HoneError,
    IdempotencyMismatch,
    InvalidRequest,
    MalformedHeader,
    Misdirected,
    NotAcceptable,
    NotFound,
    NotHone,
    NotPassed,
    NotStored,
    Overloaded,
    PreconditionFailed,
    QuotaExceeded,
    RateLimited,
    RefinementCanceled,
    RefinementFailed,
    ServerUnreachable,
    TimedOut,
    TooLarge,
    Unauthenticated,
    Unavailable,
    WebhookRejected,
)
from hone.events import Event
from hone.models import Batch, Snapshot
from hone.params import RefinementRequest
from hone.results import Result
from hone.webhooks import WebhookMessage, verify_webhook

__version__ = "1.0.0rc1"
__all__ = [
    "ApiError",
    "AsyncHone",
    "Batch",
    "Conflict",
    "Event",
    "Forbidden",
    "Hone",
    "HoneError",
    "IdempotencyMismatch",
    "InvalidRequest",
    "MalformedHeader",
    "Misdirected",
    "NotAcceptable",
    "NotFound",
    "NotHone",
    "NotPassed",
    "NotStored",
    "Overloaded",
    "PreconditionFailed",
    "QuotaExceeded",
    "RateLimited",
    "RefinementCanceled",
    "RefinementFailed",
    "RefinementRequest",
    "Result",
    "ServerUnreachable",
    "Snapshot",
    "TimedOut",
    "TooLarge",
    "Unauthenticated",
    "Unavailable",
    "WebhookMessage",
    "WebhookRejected",
    "verify_webhook",
]
