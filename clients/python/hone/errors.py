"""What can go wrong, as classes.

HoneError
  ServerUnreachable    no answer, or none in time; what was sent may have arrived
  ApiError             the server refuses, and says why (RFC 9457); a class per `code`
  RefinementFailed     `refine` waited for a refinement that failed
  RefinementCanceled   the same for one that somebody canceled
  NotPassed            the same, with `must_pass`, for one whose best draft does not pass
  WebhookRejected      a webhook that Hone has not signed, or not lately
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hone.models import Snapshot
    from hone.results import Result


class HoneError(Exception):
    """What all errors of this client are."""


class ServerUnreachable(HoneError):
    """The server has not answered, after all retries.

    A repeated submission with the same `idempotency_key` does not create a second refinement.
    """


class ApiError(HoneError):
    """The server refuses.

    `status` is that of HTTP, and `code` the word for programs. `detail` says what to change,
    `errors` has `{"pointer", "detail"}` for each wrong field, and `request_id` finds the request in
    the logs of the server.
    """

    code = ""

    def __init__(self, status: int, problem: dict[str, Any], request_id: str | None = None) -> None:
        self.status = status
        self.code = str(problem.get("code", self.code))
        self.title = str(problem.get("title", status))
        self.detail = str(problem.get("detail", ""))
        self.errors: list[dict[str, Any]] = problem.get("errors") or []
        self.request_id = request_id
        wrong = [f"{it.get('pointer') or '/'}: {it.get('detail')}" for it in self.errors]
        super().__init__(f"{self.title}: " + "\n  ".join(wrong or [self.detail]))


class InvalidRequest(ApiError):
    """A field of the request is wrong: `errors` names it."""

    code = "invalid_request"


class IdempotencyMismatch(ApiError):
    """The key was used with another body."""

    code = "idempotency_mismatch"


class MalformedHeader(ApiError):
    """A cursor or header cannot be read."""

    code = "malformed_header"


class Unauthenticated(ApiError):
    """The server requires an API key, and this is none."""

    code = "unauthenticated"


class Forbidden(ApiError):
    """The key lacks the scope, or others are asked to decide the review."""

    code = "forbidden"


class NotFound(ApiError):
    """It does not exist, was erased, or belongs to somebody else."""

    code = "not_found"


class NotAcceptable(ApiError):
    """There is no such representation."""

    code = "not_acceptable"


class Conflict(ApiError):
    """Not possible in the current status."""

    code = "conflict"


class NotStored(ApiError):
    """The text was not to be stored (`store: false`) and is gone."""

    code = "not_stored"


class PreconditionFailed(ApiError):
    """It has changed since the version that was named: look, and decide again."""

    code = "precondition_failed"


class TooLarge(ApiError):
    """The body is larger than the server takes."""

    code = "too_large"


class Misdirected(ApiError):
    """The server does not serve this host name."""

    code = "misdirected"


class RateLimited(ApiError):
    """Too many requests, after all retries."""

    code = "rate_limited"


class QuotaExceeded(ApiError):
    """A quota of the tenant is used up."""

    code = "quota_exceeded"


class Overloaded(ApiError):
    """The queue or the memory of the service is full, after all retries."""

    code = "overloaded"


class Unavailable(ApiError):
    """The service does not reach its Redis, after all retries."""

    code = "unavailable"


CLASSES: dict[str, type[ApiError]] = {it.code: it for it in ApiError.__subclasses__()}


class _Ended(HoneError):
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        """The refinement. `snapshot.result` has the best draft that was judged, if one was."""
        error = snapshot.error
        why = f"{error.code}: {error.detail}" if error else snapshot.reason or snapshot.status
        super().__init__(f"{snapshot.id}: {why}")


class RefinementFailed(_Ended):
    """The refinement failed; what was paid for is in `snapshot`, and `retry` goes on from there."""


class RefinementCanceled(_Ended):
    """The refinement was canceled."""


class NotPassed(_Ended):
    """The best draft does not meet what was asked; the message says why."""

    def __init__(self, snapshot: Snapshot, result: Result) -> None:
        super().__init__(snapshot)
        self.result = result
        """What `refine` returns without `must_pass`."""


class WebhookRejected(HoneError):
    """Do not trust this body: answer 400."""
