"""Batches: many requests in one body of JSON Lines, and what came of each."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from app.contract import Contract, ListPage, patterns
from app.contract.endpoints import Endpoint, TimeoutS
from app.contract.errors import Cause, FieldError
from app.contract.overlays import PartialRequest
from app.contract.requests import MetadataKey, MetadataValue
from app.contract.snapshot import Snapshot

MAX_REQUESTS = 10_000
MAX_REFUSED = 100
"""Refused lines of a batch; one more, and nothing of it is kept."""

BATCH_COMPLETED: Literal["batch.completed"] = "batch.completed"

BATCH_ID = patterns.BATCH_ID.regex
CustomId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=128,
        description="Your name for the request, unique in the batch; results are found by it.",
    ),
]


class BatchWebhook(Endpoint):
    """An endpoint that is told once when the whole batch has ended, by `batch.completed`."""

    timeout_s: TimeoutS = Field(15, description="Timeout of one attempt in seconds.")


class BatchOptions(Contract):
    """Options of the whole batch."""

    defaults: PartialRequest = Field(
        PartialRequest(),
        description="Fields of a request for all lines, each of which lies over them.",
    )
    webhook: BatchWebhook | None = None
    metadata: dict[MetadataKey, MetadataValue] = Field(
        {}, max_length=16, json_schema_extra={"additionalProperties": False}
    )

    def secrets(self) -> dict[str, str]:
        """Return what is secret in the webhook, by JSON Pointer into it."""
        return {} if self.webhook is None else self.webhook.secrets()


class BatchHead(Contract):
    """The first line of a batch, if it has options."""

    batch: BatchOptions


class BatchItem(Contract):
    """A line of a batch: one request for a refinement."""

    custom_id: CustomId
    request: dict[str, Any] = Field(
        description="The same as the body of `POST /v1/refinements`; `defaults` add to it."
    )


class BatchRefusal(Cause):
    """The reason for which a line was refused, as a single submission would have been."""

    errors: tuple[FieldError, ...] = Field(
        (), description="At most 5, with pointers into the line."
    )


class RefusedLine(Contract):
    """A line that was refused; the others are not affected."""

    line: int = Field(ge=1)
    custom_id: str | None
    error: BatchRefusal


class BatchCounts(Contract):
    """Numbers of requests of a batch by status, or by outcome once they ended.

    All but `total` add up to `total`.
    """

    total: int = Field(0, ge=0, description="Lines with a request, or with what was none.")
    invalid: int = Field(0, ge=0, description="Lines that were refused.")
    pending: int = Field(0, ge=0, description="Not begun: there is no refinement yet.")
    queued: int = Field(0, ge=0)
    running: int = Field(0, ge=0)
    paused: int = Field(0, ge=0)
    canceling: int = Field(0, ge=0)
    passed: int = Field(0, ge=0)
    best_effort: int = Field(0, ge=0)
    failed: int = Field(0, ge=0)
    canceled: int = Field(0, ge=0, description="Canceled, begun or not.")
    erased: int = Field(0, ge=0, description="Refinements that were erased.")

    def under_way(self) -> int:
        """Return how many have not ended."""
        return self.pending + self.queued + self.running + self.paused + self.canceling


BatchStatus = Literal["running", "canceling", "completed", "canceled"]


class BatchWaiting(Contract):
    """The reason for which requests of a batch do not begin yet."""

    reason: Literal["quota", "memory"]
    detail: str


class BatchLinks(Contract):
    """Related resources, as paths on this server."""

    self: str
    results: str
    refinements: str
    cancel: str


class Batch(Contract):
    """A batch: how far its requests are."""

    id: str = Field(pattern=BATCH_ID)
    status: BatchStatus | str
    counts: BatchCounts
    errors: tuple[RefusedLine, ...] = Field(
        description=f"The refused lines, at most {MAX_REFUSED}; they are in the results too."
    )
    waiting: BatchWaiting | None
    metadata: dict[str, str]
    created_at: datetime
    ended_at: datetime | None
    expires_at: datetime | None = Field(
        description="When it is deleted; its refinements are kept at least until then."
    )
    links: BatchLinks

    @property
    def has_ended(self) -> bool:
        """Whether every request has ended."""
        return self.ended_at is not None


class BatchPage(ListPage):
    """One page of batches, newest first."""

    data: tuple[Batch, ...]


class BatchResult(Contract):
    """A line of the results: what came of one request."""

    line: int = Field(ge=1, description="Number of the line in the body, from 1.")
    custom_id: str | None
    outcome: str = Field(
        description="`passed`, `best_effort`, `failed` or `canceled` as of the refinement, or"
        " `invalid`: the line was refused."
    )
    refinement: Snapshot | None = Field(description="Null if none was begun.")
    error: BatchRefusal | None = Field(description="Why the line was refused.")


class BatchMessage(Contract):
    """The body of the webhook of a batch."""

    type: Literal["batch.completed"]
    timestamp: datetime = Field(description="When the batch ended, by the clock of the server.")
    data: Batch


def batch_links(batch_id: str) -> BatchLinks:
    """Return the links of a batch."""
    at = f"/v1/batches/{batch_id}"
    return BatchLinks(
        self=at,
        results=f"{at}/results",
        refinements=f"/v1/refinements?batch={batch_id}",
        cancel=f"{at}/cancel",
    )
