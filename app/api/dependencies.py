"""What routes ask for by name.

All of it is `async` though nothing waits: the framework would run the rest in threads, at more cost
than what is done there.
"""

from collections.abc import Container
from typing import Annotated

from fastapi import Depends, Header, Path, Query, Request
from pydantic.json_schema import SkipJsonSchema

from app.api.bodies import Body, body_of
from app.api.headers import (
    MAX_KEY,
    MAX_WAIT_S,
    accepted,
    event_number,
    idempotency_key,
    preferred_wait_s,
    seen_events,
)
from app.api.refusals import NotAcceptable
from app.contract.continuation import Continuation
from app.contract.limits import LimitsChange
from app.contract.requests import RefinementRequest
from app.contract.reviews import Review
from app.service import Service

EVENT_STREAM = "text/event-stream"
JSON = "application/json"
Absent = SkipJsonSchema[None]
"""A parameter that is left out; nobody can send a null."""

NUMBER = "^[0-9]{1,18}$"


async def _service(request: Request) -> Service:
    service: Service = request.state.service
    return service


async def _tenant() -> str:
    """Everybody, until there are keys."""
    return "default"


async def _prefer(
    prefer: Annotated[
        list[str],
        Header(
            alias="Prefer",
            description="`wait=30`: answer when it has ended, after 30 seconds at the latest.",
        ),
    ] = [],  # noqa: B006 - FastAPI copies it
) -> int | None:
    return preferred_wait_s(prefer)


async def _idempotency_key(
    idempotency_key_: Annotated[
        str | Absent,
        Header(
            alias="Idempotency-Key",
            json_schema_extra={"pattern": "^[!-~]([ -~]*[!-~])?$", "maxLength": MAX_KEY},
            description="1 to 255 printable characters, quoted or bare. For 24 hours the same key"
            " and body answer with the same refinement.",
        ),
    ] = None,
) -> str | None:
    return idempotency_key(idempotency_key_)


async def _seen(
    if_none_match: Annotated[
        list[str],
        Header(
            alias="If-None-Match",
            description="The `ETag` of the snapshot that is already known.",
        ),
    ] = [],  # noqa: B006
) -> Container[int] | None:
    return seen_events(if_none_match)


async def _after(
    last_event_id: Annotated[
        str | Absent,
        Header(
            alias="Last-Event-ID",
            description="Number of the last event seen; goes before `after`.",
            json_schema_extra={"pattern": NUMBER},
        ),
    ] = None,
    after: Annotated[int, Query(ge=0, lt=10**18, description="Number of the last event seen.")] = 0,
) -> int:
    if last_event_id is not None:
        return event_number(last_event_id)
    return after


async def _events_as(
    accept: Annotated[list[str], Header(include_in_schema=False)] = [],  # noqa: B006
) -> str:
    media_type = accepted(accept, (EVENT_STREAM, JSON))
    if media_type is None:
        raise NotAcceptable(f"events come as {EVENT_STREAM} or as {JSON}")
    return media_type


TheService = Annotated[Service, Depends(_service)]
Tenant = Annotated[str, Depends(_tenant)]
RefinementId = Annotated[
    str,
    Path(
        description="What `POST /v1/refinements` answered as `id`.",
        pattern="^ref_[0-9A-HJKMNP-TV-Z]{26}$",
        examples=["ref_01JD3Y3V3G5ZC1Q6E0M8W2R9TB"],
    ),
]
Submission = Annotated[Body[RefinementRequest], Depends(body_of(RefinementRequest))]
ReviewBody = Annotated[Body[Review], Depends(body_of(Review))]
ContinuationBody = Annotated[Body[Continuation], Depends(body_of(Continuation))]
Change = Annotated[Body[LimitsChange], Depends(body_of(LimitsChange))]
IdempotencyKey = Annotated[str | None, Depends(_idempotency_key)]
PreferredWait = Annotated[int | None, Depends(_prefer)]
Seen = Annotated[Container[int] | None, Depends(_seen)]
After = Annotated[int, Depends(_after)]
EventsAs = Annotated[str, Depends(_events_as)]
Wait = Annotated[
    float,
    Query(
        ge=0,
        le=MAX_WAIT_S,
        description="Seconds to hold the request until there is news.",
    ),
]
IterationNumber = Annotated[int, Path(ge=0, le=1_000_000, description="0 is the client's draft.")]
SearchPath = Annotated[
    str,
    Query(
        max_length=500,
        description="An inner search, such as `stages/outline`; bare numbers mean the outermost.",
    ),
]
