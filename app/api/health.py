"""Whether the process is up, and whether it can do its work."""

from fastapi import APIRouter

from app.api.dependencies import TheService
from app.api.documentation import problems
from app.contract.readiness import Health, Readiness

router = APIRouter(tags=["health"])


@router.get("/healthz", operation_id="getHealth")
async def health() -> Health:
    """Return when the process is up."""
    return Health()


@router.get("/readyz", operation_id="getReadiness", responses=problems())
async def readiness(service: TheService) -> Readiness:
    """Return when Redis answers. That no worker is alive is a warning: what is submitted waits."""
    return await service.readiness()
