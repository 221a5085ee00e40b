"""What can go wrong, as classes.

HoneError
  ServerUnreachable    no answer, or none in time; what was sent may have arrived
  TimedOut             it has not ended in the time that `wait` was given; a TimeoutError, too
  NotHone              something else than a Hone server answers
  ApiError             the server refuses, and says why (RFC 9457); a class per `code`
  RefinementFailed     `refine` waited for a refinement that failed
  RefinementCanceled   the same for one that somebody canceled
  NotPassed            the same, with `must_pass`, for one whose best draft does not pass
  WebhookRejected      a webhook that Hone has not signed, or not lately
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from hone.models import Snapshot
    from hone.results import Result


class HoneError(Exception):
    """What all errors of this client are."""


class ServerUnreachable(HoneError):
    """The server has not answered, after all retries; `reason` says why.

    A repeated submission with the same `idempotency_key` does not create a second refinement.
    """

    def __init__(self, server: str, cause: BaseException) -> None:
        self.reason, advice = _explained(cause)
        self.retry_after_s: float = getattr(cause, "retry_after_s", 0.0)
        was_reached = isinstance(cause, httpx.ReadTimeout | httpx.WriteTimeout)
        fact = f"{server} {'does not answer' if was_reached else 'is unreachable'}: {self.reason}"
        super().__init__("\n".join(filter(None, [fact, advice])))
        self.__cause__ = cause


def _explained(error: BaseException) -> tuple[str, str]:
    """Return why a connection failed, and what to do about it."""
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) and cause not in causes:
        causes.append(cause)
    found = next((one for one in causes if isinstance(one, OSError)), error)
    if isinstance(error, httpx.TimeoutException):
        found = error
    advice = ""
    match found:
        case socket.gaierror():
            reason = "the name of the host is not known"
            advice = "Is HONE_SERVER or --server spelled right?"
        case ssl.SSLCertVerificationError():
            reason = f"its TLS certificate is not trusted: {found.verify_message}"
            advice = "SSL_CERT_FILE names a file with the certificates that you trust."
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER"):
            reason, advice = "it does not speak TLS there", "Try http:// instead of https://."
        case ConnectionRefusedError():
            reason, advice = "the connection was refused", "Is `hone serve` running there?"
        case httpx.TimeoutException():
            reason = "nothing came in time"
        case httpx.RemoteProtocolError():
            reason, advice = str(error), "Try https:// instead of http://, if it serves TLS."
        case ApiError():
            reason = f"status {found.status}"
        case _:
            reason = str(error) or type(error).__name__
    return reason, advice


class TimedOut(HoneError, TimeoutError):
    """It has not ended in the time given; it goes on."""


class NotHone(HoneError):
    """The answer is not that of a Hone server: the address leads to another program."""

    def __init__(self, server: str, detail: str = "") -> None:
        more = f": {detail}" if detail else ""
        super().__init__(f"the response of {server} is not that of a Hone server{more}")


class ApiError(HoneError):
    """The server refuses.

    `status` is that of HTTP, and `code` the word for programs. `detail` says what to change,
    `errors` has `{"pointer", "detail"}` for each wrong field, and `request_id` finds the request in
    the logs of the server.
    """

    code = ""
    retry_after_s = 0.0
    """Seconds that the server asks to wait before the request is repeated."""

    def __init__(self, status: int, problem: dict[str, Any], request_id: str | None = None) -> None:
        self.status = status
        self.code = str(problem.get("code", self.code))
        self.title = str(problem.get("title", status))
        self.detail = str(problem.get("detail", ""))
        errors = problem.get("errors")
        self.errors: list[dict[str, Any]] = [
            error
            for error in (errors if isinstance(errors, list) else [])
            if isinstance(error, dict)
        ]
        self.request_id = request_id
        advice = ["HONE_API_KEY must have a key for it."] if status == 401 else []
        super().__init__("\n".join([f"{self.title}: {self.detail}", *self._places(), *advice]))

    def _places(self) -> Iterator[str]:
        """Yield a line for each sentence about fields that the detail does not have."""
        places: dict[str, list[str]] = {}
        for error in self.errors:
            if (sentence := str(error.get("detail"))) not in self.detail:
                places.setdefault(sentence, []).extend(
                    filter(None, [str(error.get("pointer", ""))])
                )
        for sentence, where in places.items():
            yield f"  {', '.join(where)}{': ' * bool(where)}{sentence}"


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
