"""Refinements: submit, list, look at, change and erase."""

from fastapi import APIRouter, Request, Response

from app.api import examples
from app.api.dependencies import (
    Change,
    ContinuationBody,
    Cursor,
    IdempotencyKey,
    Limit,
    Metadata,
    PreferredWait,
    RefinementId,
    ReviewBody,
    SeenEvents,
    Submission,
    Tenant,
    TheService,
    Wait,
    WithStatus,
)
from app.api.openapi import ACCEPTED, LISTED, LOOKED_AT, SUBMITTED, body, problems
from app.api.problems import UnsupportedMediaType
from app.api.response_headers import accepted, listed, shown
from app.contract.errors import (
    BodyTooLarge,
    Conflict,
    IdempotencyMismatch,
    InvalidRequest,
    MalformedHeader,
    Overloaded,
    RefinementNotFound,
)
from app.contract.limits import Limits, LimitsChange
from app.contract.requests import Continuation, RefinementRequest
from app.contract.reviews import ReviewDecision
from app.contract.snapshot import Snapshot, SnapshotPage

router = APIRouter(prefix="/v1/refinements", tags=["refinements"])
UNREADABLE = (BodyTooLarge, UnsupportedMediaType, InvalidRequest)


@router.post(
    "",
    operation_id="submitRefinement",
    status_code=202,
    response_model=Snapshot,
    responses=SUBMITTED | problems(MalformedHeader, *UNREADABLE, IdempotencyMismatch, Overloaded),
    openapi_extra=body(RefinementRequest, examples.REQUESTS),
)
async def submit(
    submission: Submission,
    key: IdempotencyKey,
    wait_s: PreferredWait,
    tenant: Tenant,
    service: TheService,
    response: Response,
) -> Snapshot:
    """Submit a text to improve, or a task to write one for.

    Answers at once with 202, where to look (`Location`) and when (`Retry-After`). With
    `Prefer: wait=30` it waits that long at most, and answers 200 if the refinement ended in time.
    It does not wait for a reviewer.
    """
    result = await service.submit(
        tenant, submission.content, submission.sha256, key=key, wait_s=wait_s or 0
    )
    return accepted(response, result, wait_s)


@router.get(
    "",
    operation_id="listRefinements",
    responses=LISTED | problems(MalformedHeader),
)
async def list_(
    tenant: Tenant,
    service: TheService,
    request: Request,
    response: Response,
    metadata: Metadata,
    status: WithStatus = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> SnapshotPage:
    """List refinements, newest first.

    `metadata.KEY=VALUE` asks for those with that pair, as often as wanted. The pages stay the same
    while refinements are added.
    """
    page = await service.page(tenant, status=status, metadata=metadata, limit=limit, cursor=cursor)
    return listed(request, response, page)


@router.get(
    "/{refinement_id}",
    operation_id="getRefinement",
    response_model=Snapshot,
    responses=LOOKED_AT | problems(MalformedHeader, RefinementNotFound),
)
async def get(
    refinement_id: RefinementId,
    tenant: Tenant,
    service: TheService,
    seen: SeenEvents,
    response: Response,
    wait: Wait = 0,
) -> Snapshot | Response:
    """Look at a refinement.

    Its `ETag` is the number of its last event; `If-None-Match` with that tag answers 304. With
    `wait` the request is held until the last event is another than `If-None-Match` says (or than
    now), and is a 304 if that does not happen in time.
    """
    return shown(response, await service.news(tenant, refinement_id, seen, wait))


@router.patch(
    "/{refinement_id}",
    operation_id="changeRefinement",
    responses=problems(RefinementNotFound, Conflict, *UNREADABLE),
    openapi_extra=body(LimitsChange, examples.CHANGES),
)
async def change(
    refinement_id: RefinementId, change: Change, tenant: Tenant, service: TheService
) -> Limits:
    """Change threshold, `max_iterations` or budget while it runs; what is left out stays.

    Answers with the limits now in force. They hold from the next judged draft on.
    """
    return await service.change(tenant, refinement_id, change.content)


@router.delete(
    "/{refinement_id}",
    operation_id="eraseRefinement",
    status_code=204,
    responses=problems(RefinementNotFound),
)
async def erase(refinement_id: RefinementId, tenant: Tenant, service: TheService) -> None:
    """Erase a refinement and everything derived from it, in any status, at once.

    Its worker stops, its watchers' streams end, and from now on it is a 404.
    """
    await service.erase(tenant, refinement_id)


@router.post(
    "/{refinement_id}/cancel",
    operation_id="cancelRefinement",
    status_code=202,
    responses=ACCEPTED | problems(RefinementNotFound, Conflict),
)
async def cancel(refinement_id: RefinementId, tenant: Tenant, service: TheService) -> Snapshot:
    """Cancel a refinement: `canceling` now, `canceled` once work has really stopped.

    While nobody works on it, it is `canceled` at once. The best draft so far stays in `result`.
    """
    return await service.cancel(tenant, refinement_id)


@router.post(
    "/{refinement_id}/finish",
    operation_id="finishRefinement",
    status_code=202,
    responses=ACCEPTED | problems(RefinementNotFound, Conflict),
)
async def finish(refinement_id: RefinementId, tenant: Tenant, service: TheService) -> Snapshot:
    """Stop now and keep the best draft so far; without one, as soon as one is judged."""
    return await service.finish(tenant, refinement_id)


@router.get(
    "/{refinement_id}/request",
    operation_id="getRequest",
    responses=problems(RefinementNotFound),
)
async def request(
    refinement_id: RefinementId, tenant: Tenant, service: TheService
) -> RefinementRequest:
    """Return what was submitted, with what was left out filled in."""
    return await service.request(tenant, refinement_id)


@router.post(
    "/{refinement_id}/reviews",
    operation_id="reviewRefinement",
    status_code=202,
    responses=ACCEPTED
    | problems(MalformedHeader, RefinementNotFound, Conflict, *UNREADABLE, IdempotencyMismatch),
    openapi_extra=body(ReviewDecision, examples.REVIEWS),
)
async def review(
    refinement_id: RefinementId,
    said: ReviewBody,
    key: IdempotencyKey,
    tenant: Tenant,
    service: TheService,
) -> Snapshot:
    """Say what to do with the draft under review: the refinement goes on with that.

    Possible while it is `paused`: `review` in the snapshot says what is asked and until when, and
    the draft is the iteration at `review.path`. Give `review.key` as `path` to be sure that it is
    this review you answer. With an `Idempotency-Key` the same review sent again is answered again.
    """
    return await service.review(tenant, refinement_id, said.content, key)


@router.post(
    "/{refinement_id}/continue",
    operation_id="continueRefinement",
    status_code=202,
    response_model=Snapshot,
    responses=SUBMITTED
    | problems(
        MalformedHeader,
        RefinementNotFound,
        Conflict,
        *UNREADABLE,
        IdempotencyMismatch,
        Overloaded,
    ),
    openapi_extra=body(Continuation, examples.CONTINUATIONS),
)
async def continue_(
    refinement_id: RefinementId,
    continuation: ContinuationBody,
    key: IdempotencyKey,
    wait_s: PreferredWait,
    tenant: Tenant,
    service: TheService,
    response: Response,
) -> Snapshot:
    """Start a new refinement from the result of one that has ended.

    It has this one as its `parent` and its best draft as the draft; what the body leaves out is as
    it was requested then, limits changed by PATCH excepted. A strategy that cannot start from that
    draft (`nested` with `parts` of its own, `self_consistency`) gives way to `iterative` unless the
    body names one.
    """
    result = await service.continue_(
        tenant,
        refinement_id,
        continuation.content,
        continuation.sha256,
        key=key,
        wait_s=wait_s or 0,
    )
    return accepted(response, result, wait_s)
