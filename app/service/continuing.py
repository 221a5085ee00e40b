"""What a refinement that continues another one is asked to do."""

from typing import Any

from pydantic import ValidationError

from app.contract.continuation import Continuation
from app.contract.errors import Conflict, FieldError, InvalidRequest
from app.contract.requests import RefinementRequest
from app.contract.snapshot import Snapshot
from app.contract.strategies import IterativeStrategy

ITERATIVE = IterativeStrategy(kind="iterative")


def continued(
    request: RefinementRequest, parent: Snapshot, continuation: Continuation
) -> RefinementRequest:
    """Return the request of `parent` with its best draft as the draft, and what was replaced.

    A strategy that cannot start from that draft gives way to `iterative` unless one is named, and
    only `plan_execute` takes `tools` along. Raises Conflict when there is no result yet, and
    InvalidRequest for what does not go together.
    """
    if not parent.status.is_terminal:
        raise Conflict(f"{parent.id} has not ended: PATCH changes its limits while it goes on")
    if parent.result is None:
        raise Conflict(f"{parent.id} has no result to start from")
    changes = {"draft": parent.result.draft, **continuation.changes()}
    if continuation.strategy is None and not _can_start_from(parent.result.draft, request):
        changes["strategy"] = ITERATIVE
    if changes.get("strategy", request.strategy).kind != "plan_execute":
        changes["tools"] = ()
    try:
        return _changed(request, changes)
    except ValidationError as invalid:
        detail = invalid.errors()[0]["msg"].removeprefix("Value error, ")
        raise InvalidRequest(detail, errors=(FieldError(pointer="", detail=detail),)) from None


def _can_start_from(draft: str, request: RefinementRequest) -> bool:
    try:
        _changed(request, {"draft": draft})
    except ValidationError:
        return False
    return True


def _changed(request: RefinementRequest, changes: dict[str, Any]) -> RefinementRequest:
    """Return a copy that is checked like a request that comes in."""
    wanted = request.model_copy(update=changes)
    return RefinementRequest.model_validate_json(wanted.model_dump_json(by_alias=True))
