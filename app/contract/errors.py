"""Every refusal: a fact, a stable code and an HTTP status.

HoneError
  InvalidRequest          422  invalid_request
  IdempotencyMismatch     422  idempotency_mismatch
  MalformedHeader         400  malformed_header
  RefinementNotFound      404  not_found
  NotFound                404  not_found
  Conflict                409  conflict
  BodyTooLarge            413  too_large
  Overloaded              503  overloaded       (Retry-After)
  Unavailable             503  unavailable      (Retry-After)
"""

from typing import ClassVar

from pydantic import Field

from app.contract import Contract


class FieldError(Contract):
    """One thing wrong with a body."""

    pointer: str = Field(description="JSON Pointer (RFC 6901) to the offending value.")
    detail: str


class Problem(Contract):
    """A refusal as `application/problem+json` (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    errors: tuple[FieldError, ...] | None = None


class HoneError(Exception):
    """A refusal that a client can act on; `detail` says what to change."""

    code: ClassVar[str]
    status: ClassVar[int]
    title: ClassVar[str]

    def __init__(
        self, detail: str, *, errors: tuple[FieldError, ...] = (), retry_after_s: int | None = None
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = errors
        self.retry_after_s = retry_after_s


class InvalidRequest(HoneError):
    """The body breaks the schema, or asks for what this server cannot do."""

    code, status, title = "invalid_request", 422, "The request is invalid"


class IdempotencyMismatch(HoneError):
    """The `Idempotency-Key` was used with another body within 24 hours."""

    code, status, title = "idempotency_mismatch", 422, "The idempotency key has another body"


class MalformedHeader(HoneError):
    """A header, cursor or query parameter cannot be read."""

    code, status, title = "malformed_header", 400, "A header or parameter cannot be read"


class NotFound(HoneError):
    """Nothing stands at this address."""

    code, status, title = "not_found", 404, "Not found"


class RefinementNotFound(NotFound):
    """Unknown, erased, or somebody else's."""

    def __init__(self, refinement_id: str) -> None:
        super().__init__(f"there is no refinement {refinement_id}")


class Conflict(HoneError):
    """Not possible in this status."""

    code, status, title = "conflict", 409, "Not possible in this status"


class BodyTooLarge(HoneError):
    """The body is larger than HONE_MAX_BODY_BYTES."""

    code, status, title = "too_large", 413, "The body is too large"


class Overloaded(HoneError):
    """The queue is full, or memory nearly so."""

    code, status, title = "overloaded", 503, "The service is overloaded"


class Unavailable(HoneError):
    """Redis cannot be reached."""

    code, status, title = "unavailable", 503, "The service is unavailable"


class FieldConflict(ValueError):
    """What does not fit; `pointer` (RFC 6901, from where it is raised) says what to change."""

    def __init__(self, pointer: str, message: str) -> None:
        super().__init__(message)
        self.pointer = pointer
