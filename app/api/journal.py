"""What happened to a refinement: its events, its iterations and the difference between two."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from app.api.answers import event_page
from app.api.dependencies import (
    EVENT_STREAM,
    Absent,
    After,
    EventsAs,
    IterationNumber,
    RefinementId,
    SearchPath,
    Tenant,
    TheService,
)
from app.api.documentation import WATCHED, problems
from app.api.queries import EventLimit
from app.api.refusals import NotAcceptable
from app.api.stream import EventStream
from app.contract.errors import MalformedHeader, RefinementNotFound
from app.contract.snapshot import Diff, Iteration, IterationList

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
