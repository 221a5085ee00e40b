"""The offers of this server, described by the models that validate requests."""

from collections.abc import Iterator, Mapping, Sequence
from inspect import cleandoc
from typing import Any

from app.contract import Contract
from app.contract.models import ModelChoice
from app.contract.offers import (
    ModelLimit,
    ModelList,
    ModelOffer,
    Offer,
    OfferList,
    PricedModel,
    Readiness,
)
from app.contract.plugins import declared_kind
from app.contract.providers import Provider, price_list
from app.contract.strategies import STRATEGIES
from app.contract.validators import VALIDATORS
from app.contract.values import value
from app.contract.waiting import REFUSALS
from app.service.admission import ModelRoles
from app.store import LATER
from app.store.rate_limits import StoredLimit

NO_WORKER = "no worker is running: submitted refinements wait for one"


def strategy_offers() -> OfferList:
    """Return every strategy a request can name."""
    return OfferList(data=tuple(map(_offer, STRATEGIES.values())))


def validator_offers() -> OfferList:
    """Return every validator a request can name."""
    return OfferList(data=tuple(map(_offer, VALIDATORS.values())))


def model_offers(model_roles: ModelRoles, limits: Sequence[StoredLimit]) -> ModelList:
    """Return every provider: the setting it lacks, known prices, and limits that are in force."""
    offers = tuple(
        _models_of(provider, model_roles, limits) for provider in model_roles.providers()
    )
    return ModelList(default=model_roles.default.model, data=offers)


@value(slots=True)
class Standing:
    """What stands in a cell.

    `unplayable` are the versions that refinements wait for and no worker plays; `overdue` are
    webhooks that nothing sends; `waiting` refinements wait for a worker; `archive` says what is
    wrong with the archive, if anything, and `memory` what is with that of Redis. Neither makes a
    server unready: it goes on reading, ending and erasing, which frees memory.
    """

    workers: int
    unplayable: Sequence[str] = ()
    overdue: int = 0
    waiting: int = 0
    archive: str = ""
    memory: Sequence[str] = ()
    cell: int | None = None


NOWHERE: Mapping[int, str] = {}


def readiness_of(
    found: Sequence[Standing],
    model_roles: ModelRoles,
    limits: Sequence[StoredLimit],
    away: Mapping[int, str] = NOWHERE,
) -> Readiness:
    """Return the readiness of this server by what stands in each cell that is not away.

    An open breaker of `limits` is a warning, and a cell that is `away`, with why if that is told.
    """
    workers = sum(cell.workers for cell in found)
    warnings = [f"cell {number} is away{why and f': {why}'}" for number, why in away.items()]
    warnings += [] if workers else [NO_WORKER]
    if workers:
        warnings += [f"cell {cell.cell} has no worker" for cell in found if not cell.workers]
    unplayable = sorted({version for cell in found for version in cell.unplayable})
    warnings += [f"{fact}: {advice}" for fact, advice in map(unplayed, unplayable)]
    warnings += broken(model_roles, limits)
    if overdue := sum(cell.overdue for cell in found):
        warnings.append(f"webhooks overdue: {overdue}; is `hone webhooks` running?")
    warnings += [cell.archive for cell in found if cell.archive]
    for cell in found:
        where = "" if cell.cell is None else f"cell {cell.cell}: "
        warnings += [f"{where}{flaw}" for flaw in cell.memory]
    waiting = sum(cell.waiting for cell in found)
    return Readiness(workers=workers, waiting=waiting, warnings=tuple(warnings))


def broken(model_roles: ModelRoles, limits: Sequence[StoredLimit]) -> Iterator[str]:
    """Yield a sentence about each open breaker that concerns the keys set now."""
    for provider in model_roles.providers():
        yield from _broken(model_roles.limits_of(provider, limits))


def _broken(limits: Sequence[ModelLimit]) -> Iterator[str]:
    """Yield what to say of open breakers; one of the provider says it for its models."""
    of_provider = {
        limit.breaker.reason for limit in limits if limit.breaker and ":" not in limit.name
    }
    for limit in limits:
        if limit.breaker and (":" not in limit.name or limit.breaker.reason not in of_provider):
            since = limit.breaker.since.strftime("%Y-%m-%dT%H:%M:%SZ")
            why = f"it {REFUSALS[limit.breaker.reason]}: {limit.breaker.detail}"
            yield f"{limit.name} takes no calls since {since}: {why}"


def unplayed(lacking: str) -> tuple[str, str]:
    """Return which refinements wait for what workers lack, and what to do about it."""
    release = "start a worker of the release that accepted them"
    if lacking.isdigit():
        fact = f"refinements of engine version {lacking} wait: no running worker plays this version"
        return fact, release
    of_kind = "" if lacking == LATER else f" of the kind {lacking}"
    fact = f"refinements{of_kind} wait that no worker which was asked can read"
    return fact, f"install the package of theirs that is missing, or {release}"


def _models_of(
    provider: Provider, model_roles: ModelRoles, limits: Sequence[StoredLimit]
) -> ModelOffer:
    missing = model_roles.missing(provider)
    priced = (
        PricedModel(model=model, bands=price.bands)
        for model, price in price_list().models.items()
        if model.startswith(f"{provider.name}:")
    )
    return ModelOffer(
        provider=provider.name,
        missing=missing,
        writes=provider.writes,
        names=tuple(f"{provider.name}:{name}" for name in provider.models),
        priced=tuple(priced),
        limits=model_roles.limits_of(provider, limits),
        defaults=_defaults(ModelChoice),
        schema=ModelChoice.model_json_schema(),
    )


def _offer(contract: type[Contract]) -> Offer:
    return Offer(
        kind=declared_kind(contract),
        description=cleandoc(contract.__doc__ or ""),
        defaults=_defaults(contract),
        schema=contract.model_json_schema(),
    )


def _defaults(contract: type[Contract]) -> dict[str, Any]:
    return {
        field.alias or name: field.get_default(call_default_factory=True)
        for name, field in contract.model_fields.items()
        if not field.is_required()
    }
