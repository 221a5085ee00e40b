"""A person's word about the draft that a paused refinement shows."""

from fastapi import APIRouter

from app.api import examples
from app.api.dependencies import IdempotencyKey, RefinementId, ReviewBody, Tenant, TheService
from app.api.documentation import ACCEPTED, body, problems
from app.api.refinements import UNREADABLE
from app.contract.errors import Conflict, IdempotencyMismatch, MalformedHeader, RefinementNotFound
from app.contract.reviews import Review
from app.contract.snapshot import Snapshot

router = APIRouter(prefix="/v1/refinements/{refinement_id}/reviews", tags=["refinements"])


@router.post(
    "",
    operation_id="reviewRefinement",
    status_code=202,
    responses=ACCEPTED
    | problems(MalformedHeader, RefinementNotFound, Conflict, *UNREADABLE, IdempotencyMismatch),
    openapi_extra=body(Review, examples.REVIEWS),
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
