"""Going on from what a refinement came to."""

from fastapi import APIRouter, Response

from app.api import examples
from app.api.answers import accepted
from app.api.dependencies import (
    ContinuationBody,
    IdempotencyKey,
    PreferredWait,
    RefinementId,
    Tenant,
    TheService,
)
from app.api.documentation import SUBMITTED, body, problems
from app.api.refinements import UNREADABLE
from app.contract.continuation import Continuation
from app.contract.errors import (
    Conflict,
    IdempotencyMismatch,
    MalformedHeader,
    Overloaded,
    RefinementNotFound,
)
from app.contract.snapshot import Snapshot

router = APIRouter(prefix="/v1/refinements/{refinement_id}/continue", tags=["refinements"])


@router.post(
    "",
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
