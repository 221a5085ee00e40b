"""What a reviewer cannot ask of a refinement, however it stands."""

from app.contract.editor import EDITOR
from app.contract.edits import in_order, lacking
from app.contract.errors import FieldError, InvalidRequest
from app.contract.events import Queued
from app.contract.requests import RefinementRequest
from app.contract.reviews import Review


def require_heeded(review: Review, queued: Queued) -> None:
    """Return when somebody can do what is asked, else raise InvalidRequest."""
    is_asked = review.action == "revise" and review.feedback is not None
    if is_asked and queued.models.get("generator") == EDITOR:
        detail = (
            f"{EDITOR} knows its rules and follows no words: let it revise without feedback,"
            " or replace the draft with your own"
        )
        raise InvalidRequest(detail, errors=(FieldError(pointer="/feedback", detail=detail),))


def require_locked(review: Review, request: RefinementRequest) -> None:
    """Return when a reviewer's own draft keeps every locked text, else raise InvalidRequest."""
    if gone := lacking(review.draft or "", in_order(request.draft, request.locked)):
        detail = f"locked text may not be changed, and is not in its place here: {gone[0][:200]}"
        raise InvalidRequest(detail, errors=(FieldError(pointer="/draft", detail=detail),))
