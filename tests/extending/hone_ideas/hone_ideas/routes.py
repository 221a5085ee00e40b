"""An operation that the package adds to the API."""

from fastapi import APIRouter

router = APIRouter(prefix="/ideas")


@router.get("/topics")
def list_topics() -> list[str]:
    """Return what there may be ideas about."""
    return ["a summer party"]
