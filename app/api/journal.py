"""Stored events as server-sent events (HTML Living Standard, 9.2)."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, get_args

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Send

from app.api.dependencies import (
    EVENT_STREAM,
    Absent,
    After,
    EventLimit,
    EventsAs,
    IterationNumber,
    RefinementId,
    SearchPath,
    Tenant,
    TheService,
)
from app.api.openapi import REPORTED, WATCHED, problems
from app.api.problems import NotAcceptable
from app.api.request_headers import accepted
from app.api.response_headers import event_page
from app.contract.errors import InvalidRequest, MalformedHeader, RefinementNotFound
from app.contract.snapshot import Diff, Iteration, IterationList
from app.service.report import ReportFormat
from app.store import StoredEvent

COMMENT = b": nothing new\n\n"


class EventStream(StreamingResponse):
    """Sends events as they come and as they are stored, and a comment where there are none.

    Whatever can be refused has been refused before one is made. A reader that takes nothing is cut
    off by its connection.
    """

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[tuple[StoredEvent, ...], None]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # the latter is nginx's
        super().__init__((), headers=headers)
        self._events = events

    async def stream_response(self, send: Send) -> None:
        """Send everything; the source is closed at once when the reader leaves."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        async with aclosing(self._events) as batches:
            async for events in batches:
                body = b"".join(map(encoded, events)) or COMMENT
                await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def encoded(event: StoredEvent) -> bytes:
    """Return one event; its JSON stands on one line."""
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (event.number, event.type.encode(), event.json)


router = APIRouter(prefix="/v1/refinements/{refinement_id}", tags=["journal"])


@router.get(
    "/events",
    operation_id="watchRefinement",
    response_class=Response,
    responses=WATCHED | problems(MalformedHeader, RefinementNotFound, NotAcceptable),
)
async def events(
    refinement_id: RefinementId,
    tenant: Tenant,
    service: TheService,
    request: Request,
    after: After,
    media_type: EventsAs,
    limit: EventLimit = 100,
) -> Response:
    """Watch a refinement: every event so far, then each as it happens, up to the terminal one.

    As `text/event-stream` the `id` of an event is its number. A client that was cut off sends the
    last one it saw as `Last-Event-ID` (or `after`) and misses nothing; 204 tells it that nothing is
    left to see. Every 15 seconds without an event there is a comment. With
    `Accept: application/json` the same events come in pages.
    """
    if media_type != EVENT_STREAM:
        found = await service.events(tenant, refinement_id, after, limit)
        return event_page(request, found, after)
    stream = await service.follow(tenant, refinement_id, after)
    return EventStream(stream) if stream else Response(status_code=204)


@router.get(
    "/iterations",
    operation_id="listIterations",
    responses=problems(MalformedHeader, RefinementNotFound),
)
async def iterations(
    refinement_id: RefinementId,
    tenant: Tenant,
    service: TheService,
    path: SearchPath | Absent = None,
) -> IterationList:
    """Return every draft that was judged, inner searches included, or those of `path`."""
    return IterationList(data=await service.iterations(tenant, refinement_id, path))


@router.get(
    "/iterations/{number}",
    operation_id="getIteration",
    responses=problems(MalformedHeader, RefinementNotFound),
)
async def iteration(
    refinement_id: RefinementId,
    number: IterationNumber,
    tenant: Tenant,
    service: TheService,
    path: SearchPath = "",
) -> Iteration:
    """Return one draft and how it was judged."""
    return await service.iteration(tenant, refinement_id, number, path)


@router.get(
    "/diff",
    operation_id="diffIterations",
    responses=problems(MalformedHeader, RefinementNotFound),
)
async def diff(
    refinement_id: RefinementId,
    tenant: Tenant,
    service: TheService,
    before: Annotated[
        int, Query(alias="from", ge=0, le=1_000_000, description="0 is the client's draft.")
    ],
    after: Annotated[
        int, Query(alias="to", ge=0, le=1_000_000, description="What it is compared with.")
    ],
    path: SearchPath = "",
    from_path: Annotated[
        SearchPath | Absent, Query(description="The search of `from`, when it is not `path`.")
    ] = None,
) -> Diff:
    """Return the difference between two iterations, as operations and as unified text.

    0 is the client's own draft; without one there is no iteration 0. They may be of two searches:
    `?from=3&from_path=&to=1&path=reviews/1` says what a reviewer's wish has changed.
    """
    before_path = path if from_path is None else from_path
    return await service.diff(tenant, refinement_id, (before_path, before), (path, after))


FORMATS: tuple[ReportFormat, ...] = get_args(ReportFormat)
MEDIA_TYPES: dict[str, ReportFormat] = {"text/markdown": "md", "text/html": "html"}
TYPE_OF = {format_: media_type for media_type, format_ in MEDIA_TYPES.items()}

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Vary": "Accept",
}


async def _format(
    format_: Annotated[
        str | Absent,
        Query(
            alias="format",
            description="`md` or `html`; without one as `Accept` has it, `md` among equals.",
            json_schema_extra={"enum": [*FORMATS]},
        ),
    ] = None,
    accept: Annotated[list[str], Header(include_in_schema=False)] = [],  # noqa: B006
) -> ReportFormat:
    if format_ is None:
        media_type = accepted(accept, tuple(MEDIA_TYPES))
        if media_type is None:
            raise NotAcceptable(f"a report comes as {' or as '.join(MEDIA_TYPES)}")
        return MEDIA_TYPES[media_type]
    if format_ not in FORMATS:
        raise InvalidRequest(f"there is no such format of a report: it is {' or '.join(FORMATS)}")
    return format_


@router.get(
    "/report",
    operation_id="reportRefinement",
    response_class=Response,
    responses=REPORTED
    | problems(MalformedHeader, RefinementNotFound, NotAcceptable, InvalidRequest),
)
async def report(
    refinement_id: RefinementId,
    tenant: Tenant,
    service: TheService,
    format_: Annotated[ReportFormat, Depends(_format)],
) -> Response:
    """Read the whole story of a refinement: what was asked, what happened, what came of it and why.

    In any status; it tells what has happened so far. As Markdown (CommonMark with tables) or as a
    page that stands alone: no script, no link, nothing from elsewhere, for screens and paper.
    """
    text = await service.report(tenant, refinement_id, format_)
    media_type = f"{TYPE_OF[format_]}; charset=utf-8"
    return Response(text.encode(), headers=HEADERS, media_type=media_type)
