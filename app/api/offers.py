"""What this server offers."""

from fastapi import APIRouter

from app.api.dependencies import TheService
from app.contract.offers import ModelList, OfferList
from app.service import offers

router = APIRouter(prefix="/v1", tags=["offers"])


@router.get("/strategies", operation_id="listStrategies")
async def strategies() -> OfferList:
    """Return the strategies, each with its JSON Schema and defaults."""
    return offers.strategies()


@router.get("/validators", operation_id="listValidators")
async def validators() -> OfferList:
    """Return the validators, each with its JSON Schema and defaults."""
    return offers.validators()


@router.get("/models", operation_id="listModels")
async def models(service: TheService) -> ModelList:
    """Return the providers of models, and what a choice of model can say."""
    return service.models()
