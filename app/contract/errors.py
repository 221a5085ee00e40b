"""The errors that a client can receive: a fact, a stable code and an HTTP status.

HoneError
  InvalidRequest          422  invalid_request
  IdempotencyMismatch     422  idempotency_mismatch
  MalformedHeader         400  malformed_header
  Unauthenticated         401  unauthenticated  (WWW-Authenticate)
  Forbidden               403  forbidden
  RefinementNotFound      404  not_found
  BatchNotFound           404  not_found
  NotFound                404  not_found
  Conflict                409  conflict
  NotStored               409  not_stored
  PreconditionFailed      412  precondition_failed
  BodyTooLarge            413  too_large
  TooManyRequests         429  rate_limited     (Retry-After)
  QuotaExceeded           429  quota_exceeded   (Retry-After)
  Internal                500  internal
  Overloaded              503  overloaded       (Retry-After)
  Unavailable             503  unavailable      (Retry-After)
"""

from collections.abc import Sequence
from typing import ClassVar, Self

from pydantic import Field

from app.contract import Contract


def pointer_to(*parts: str | int) -> str:
    """Return the JSON Pointer (RFC 6901) to a member of a member, and so on."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


SAID_AT_MOST = 3
"""Of the errors of one request, those that `detail` names."""


def _listed(pointers: Sequence[str]) -> str:
    more = [f"{len(pointers) - SAID_AT_MOST} more"] if len(pointers) > SAID_AT_MOST else []
    return ", ".join([*(pointer or "/" for pointer in pointers[:SAID_AT_MOST]), *more])


class Cause(Contract):
    """The cause of a failure: a stable code, and a sentence for people."""

    code: str
    detail: str


class FieldError(Contract):
    """One error in a body or in the query."""

    pointer: str = Field(
        description="JSON Pointer (RFC 6901) to the invalid value; in the query `/` and the name of"
        " the parameter."
    )
    detail: str


class Problem(Cause):
    """An error as `application/problem+json` (RFC 9457)."""

    type: str
    title: str
    status: int
    instance: str
    errors: tuple[FieldError, ...] | None = None


class HoneError(Exception):
    """An error that a client can act on; `detail` says what to change."""

    code: ClassVar[str]
    status: ClassVar[int]
    title: ClassVar[str]
    fix: ClassVar[str] = ""
    """What a client or the operator can do about it."""

    def __init__(
        self, detail: str, *, errors: tuple[FieldError, ...] = (), retry_after_s: int | None = None
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = errors
        self.retry_after_s = retry_after_s


class InvalidRequest(HoneError):
    """Body or query parameters violate the schema, or ask for something that is not supported."""

    code, status, title = "invalid_request", 422, "The request is invalid"
    fix = (
        "Correct what `errors` points at and send the request again. The schema of every body"
        " is in `/openapi.json`."
    )

    @classmethod
    def at(cls, *errors: FieldError, unlisted: int = 0) -> Self:
        """Return the error whose `detail` says what is wrong and where, each sentence once.

        `unlisted` is the number of further errors, which it does not have.
        """
        pointers: dict[str, list[str]] = {}
        for error in errors:
            pointers.setdefault(error.detail, []).append(error.pointer)
        said = [
            f"{_listed(where)}: {sentence}" if any(where) else sentence
            for sentence, where in pointers.items()
        ]
        left = len(said) - SAID_AT_MOST
        more = [f"{left} more {'error' if left == 1 else 'errors'}"] if left > 0 else []
        more += [f"{unlisted} more that are not listed"] if unlisted else []
        return cls("; ".join([*said[:SAID_AT_MOST], *more]), errors=errors)


class IdempotencyMismatch(HoneError):
    """The `Idempotency-Key` was used with another body within 24 hours."""

    code, status, title = "idempotency_mismatch", 422, "Idempotency key used with another body"
    fix = (
        "Use a new key for a new request. To repeat a request, send its body unchanged, byte"
        " for byte."
    )


class MalformedHeader(HoneError):
    """A header or cursor is invalid."""

    code, status, title = "malformed_header", 400, "A header or cursor is invalid"
    fix = "Correct the header or cursor that `detail` names. Send cursors as they were returned."


class Unauthenticated(HoneError):
    """The request has no valid API key, and this server requires one."""

    code, status, title = "unauthenticated", 401, "An API key is required"
    fix = (
        "Send `Authorization: Bearer` with a key that is valid and has not expired; `hone"
        " keys create` makes one."
    )


class Forbidden(HoneError):
    """The API key lacks the scope for this operation, or others are asked to decide a review."""

    code, status, title = "forbidden", 403, "Not allowed"
    fix = (
        "Use a key with the scope that `detail` names, or ask an administrator for one. A review"
        " with `reviewers` is decided by one of them."
    )


class NotFound(HoneError):
    """There is no resource at this path."""

    code, status, title = "not_found", 404, "Not found"
    fix = (
        "Check the path and the id, and that the key belongs to the tenant that made the"
        " refinement. What was erased, or whose retention is over, does not come back."
    )


class RefinementNotFound(NotFound):
    """The refinement is unknown, erased, or belongs to another tenant."""

    def __init__(self, refinement_id: str) -> None:
        super().__init__(f"refinement {refinement_id} was not found")


class BatchNotFound(NotFound):
    """The batch is unknown, erased, or belongs to another tenant."""

    def __init__(self, batch_id: str) -> None:
        super().__init__(f"batch {batch_id} was not found")


class Conflict(HoneError):
    """The operation is not possible in the current status of the refinement."""

    code, status, title = "conflict", 409, "Not possible in the current status"
    fix = (
        "Get the refinement: its `status` says what is possible now. An ended one can be"
        " continued, a failed one retried."
    )


class NotStored(HoneError):
    """The text of the refinement was erased after it was delivered: it has `store: false`."""

    code, status, title = "not_stored", 409, "The text was not stored"
    fix = (
        "Keep the result when it is delivered. To look at drafts, steps and reports afterwards,"
        " to continue or to retry, submit with `store: true`, which is the default."
    )

    def __init__(self, refinement_id: str) -> None:
        super().__init__(f"the text of {refinement_id} was erased, as it was not to be stored")


class PreconditionFailed(HoneError):
    """`If-Match` names another version of the refinement, or a proposal one of its preset."""

    code, status, title = "precondition_failed", 412, "It has changed since"
    fix = (
        "Get the refinement again, decide whether the command still applies, and send it with"
        " the new `ETag`. For a preset that has changed, begin a new proposal."
    )


class BodyTooLarge(HoneError):
    """The body is larger than HONE_MAX_BODY_BYTES, or that of a batch than 32 times as much."""

    code, status, title = "too_large", 413, "The body is too large"
    fix = (
        "Send a smaller body, with characters as UTF-8 instead of `\\u` escapes, or raise"
        " `HONE_MAX_BODY_BYTES`."
    )


class TooManyRequests(HoneError):
    """The tenant has made as many requests in this minute as its quota allows."""

    code, status, title = "rate_limited", 429, "Too many requests"
    fix = "Wait for the seconds in `Retry-After`, then send the request again."


class QuotaExceeded(HoneError):
    """The tenant uses as much as its quota allows."""

    code, status, title = "quota_exceeded", 429, "A quota is exhausted"
    fix = "Wait for the seconds in `Retry-After`, or ask the operator for a larger quota."


class Overloaded(HoneError):
    """The queue is full, the memory of Redis nearly so, or too many large bodies arrive at once."""

    code, status, title = "overloaded", 503, "The service is overloaded"
    fix = (
        "Wait for the seconds in `Retry-After`, then send the request again with the same"
        " `Idempotency-Key`. Operators: start more workers, or give Redis more memory."
    )


class Unavailable(HoneError):
    """Redis is unreachable, or did not respond in time."""

    code, status, title = "unavailable", 503, "The service is unavailable"
    fix = (
        "Wait for the seconds in `Retry-After`, then send the request again with the same"
        " `Idempotency-Key`. Operators: `/readyz` and the log say what Redis answers."
    )


class Internal(HoneError):
    """An internal error of this server."""

    code, status, title = "internal", 500, "Internal server error"
    fix = (
        "Repeat the request with the same `Idempotency-Key`. If it fails again, report it"
        " with what the log of the server says."
    )


class FieldConflict(ValueError):
    """A conflict between fields; `pointer` (RFC 6901, from the validated object) is one of them."""

    def __init__(self, pointer: str, message: str) -> None:
        super().__init__(message)
        self.pointer = pointer
