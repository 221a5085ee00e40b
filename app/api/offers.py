"""What this server offers."""

from fastapi import APIRouter

from app.api.dependencies import TheService
from app.api.openapi import problems
from app.contract.offers import Health, ModelList, OfferList, Readiness
from app.service import offers

router = APIRouter()


@router.get("/v1/strategies", tags=["offers"], operation_id="listStrategies")
async def strategies() -> OfferList:
    """Return the strategies, each with its JSON Schema and defaults."""
    return offers.strategies()


@router.get("/v1/validators", tags=["offers"], operation_id="listValidators")
async def validators() -> OfferList:
    """Return the validators, each with its JSON Schema and defaults."""
    return offers.validators()


@router.get("/v1/models", tags=["offers"], operation_id="listModels")
async def models(service: TheService) -> ModelList:
    """Return the providers of models, and what a choice of model can say."""
    return service.models()


@router.get("/healthz", tags=["health"], operation_id="getHealth")
async def health() -> Health:
    """Return when the process is up."""
    return Health()


@router.get("/readyz", tags=["health"], operation_id="getReadiness", responses=problems())
async def readiness(service: TheService) -> Readiness:
    """Return when Redis answers. That no worker is alive is a warning: what is submitted waits."""
    return await service.readiness()
