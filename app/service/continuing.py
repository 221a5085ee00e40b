"""What a refinement that continues another one is asked to do."""

from pydantic import ValidationError

from app.contract.continuation import Continuation
from app.contract.errors import Conflict, FieldError, InvalidRequest
from app.contract.requests import RefinementRequest
from app.contract.snapshot import Snapshot
from app.contract.strategies import AnyStrategy, IterativeStrategy


def continued(
    request: RefinementRequest, parent: Snapshot, continuation: Continuation
) -> RefinementRequest:
    """Return the request of `parent` with its best draft as the draft, and what was replaced.

    A strategy that cannot start from a draft gives way to `iterative` unless another one is named.
    Raises Conflict when there is no result yet, and InvalidRequest for what does not go together.
    """
    if not parent.status.is_terminal:
        raise Conflict(f"{parent.id} has not ended: PATCH changes its limits while it goes on")
    if parent.result is None:
        raise Conflict(f"{parent.id} has no result to start from")
    wishes = {"strategy": _starting_from_a_draft(request.strategy), **continuation.changes()}
    wanted = request.model_copy(update={"draft": parent.result.draft, **wishes})
    try:
        return RefinementRequest.model_validate_json(wanted.model_dump_json(by_alias=True))
    except ValidationError as invalid:
        detail = invalid.errors()[0]["msg"].removeprefix("Value error, ")
        raise InvalidRequest(detail, errors=(FieldError(pointer="", detail=detail),)) from None


def _starting_from_a_draft(strategy: AnyStrategy) -> AnyStrategy:
    """Return the strategy, or `iterative` for one that writes parts of its own."""
    if strategy.kind == "nested" and strategy.parts:
        return IterativeStrategy(kind="iterative")
    return strategy
