"""Where in a request the model of a role, or of a panel's critic, was named."""

from app.contract.judging import CRITIC, PanelMember
from app.contract.requests import ModelChoice, ModelName, RefinementRequest


def pointer_of(request: RefinementRequest, seat: str) -> str:
    """Return the JSON Pointer of the model's name; `/models` when the server's default plays."""
    at, named = _named(request, seat)
    if named is None:
        return "/models"
    return f"{at}/model" if isinstance(named, ModelChoice) else at


def pointer_of_fallback(request: RefinementRequest, seat: str, index: int) -> str:
    """Return the JSON Pointer of the name of a model that stands in."""
    at, _ = _named(request, seat)
    return f"{at}/fallbacks/{index}"


def _named(request: RefinementRequest, seat: str) -> tuple[str, ModelName | ModelChoice | None]:
    """Return where a choice stands, and the choice; a critic that names none has the role's."""
    member = _member(request, seat)
    if member is not None and member[1].model is not None:
        return f"/critics/panel/{member[0]}/model", member[1].model
    role = CRITIC if member is not None else seat
    return f"/models/{role}", getattr(request.models, role)


def _member(request: RefinementRequest, seat: str) -> tuple[int, PanelMember] | None:
    panel = enumerate(request.critics.panel)
    return next((it for it in panel if it[1].seat == seat), None)
