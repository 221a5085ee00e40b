"""What a reviewer cannot ask of a refinement, however it stands."""

from app.contract.editor import EDITOR
from app.contract.errors import FieldError, InvalidRequest
from app.contract.events import Queued
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
