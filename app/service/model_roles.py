"""The model of each role: whether this server can call it, and how a generator is drawn."""

from collections.abc import Mapping, Sequence
from random import Random

from app.contract.criteria import AUTO
from app.contract.events import Draw, Drawn
from app.contract.models import ROLES, Role
from app.contract.offers import ModelLimit
from app.contract.providers import PROVIDERS, Provider, added, cost_usd, provider_of
from app.contract.requests import ModelChoice, RefinementRequest
from app.settings import Settings
from app.store import Achieved, Store, StoredLimit

Choices = Mapping[str, ModelChoice]


class ModelRoles:
    """The models of this server. Raises ValueError for a default model that it cannot call."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.default = ModelChoice(model=settings.model)
        if reason := self.why_not(settings.model):
            raise ValueError(f"HONE_MODEL is {settings.model}, but {reason}")

    @property
    def max_output_tokens(self) -> int:
        """The most output tokens of a model whose own maximum is unknown."""
        return self._settings.max_output_tokens

    def choices(self, request: RefinementRequest) -> Choices:
        """Return the model of every role, whether the strategy uses it or not, and of every critic
        of a panel as `critic/<name>`."""
        choices: dict[str, ModelChoice] = {role: self._choice(request, role) for role in ROLES}
        if candidates := request.models.candidates:  # until one is drawn it may be any of them
            first = ModelChoice(model=candidates[0])
            choices["generator"] = first.model_copy(update={"fallbacks": candidates[1:]})
        for member in request.critics.panel:
            named = member.model
            choices[member.seat] = choices["critic"] if named is None else _choice_of(named)
        return choices

    def why_not(self, model: str) -> str | None:
        """Return why a model cannot be called, and how to change that; None if it can."""
        provider = provider_of(model, self._settings.providers)
        if provider is None:
            known = ", ".join(form for it in self.providers() for form in it.forms())
            return f"unknown model {model[:100]!r}; this server supports {known}"
        return self.missing(provider)

    def providers(self) -> tuple[Provider, ...]:
        """Return every provider that a request can name."""
        return (*(it for it in PROVIDERS if it.is_offered), *map(added, self._settings.providers))

    def missing(self, provider: Provider) -> str | None:
        """Return the setting that a provider's models need to be called; None if it is set."""
        if not self._settings.lacks_key(provider):
            return None
        return f"{provider.name} needs a key: set {provider.key_variable} on the server"

    def limits_of(
        self, provider: Provider, stored: Sequence[StoredLimit]
    ) -> tuple[ModelLimit, ...]:
        """Return the caps and limits of a provider's models that concern the key set now."""
        if provider.wire is None:
            return ()
        fingerprint = self._settings.fingerprint_of(provider)
        mine = [it.limit for it in stored if it.fingerprint == fingerprint]
        learnt = {it.name: it for it in mine if it.name.partition(":")[0] == provider.name}
        capped = {name for name in self._settings.limits if name.startswith(f"{provider.name}:")}
        return tuple(
            learnt.get(name, ModelLimit(name=name)).model_copy(
                update={"caps": self._settings.limits.get(name)}
            )
            for name in sorted(learnt.keys() | capped)
        )

    def _choice(self, request: RefinementRequest, role: Role) -> ModelChoice:
        return _choice_of(getattr(request.models, role) or self.default)


def playing(request: RefinementRequest) -> tuple[str, ...]:
    """Return the keys of the models that the request can call: roles and critics."""
    is_critic = request.compare or request.criteria == AUTO
    around = {"critic": is_critic, "generator": bool(request.outputs or request.review)}
    added = (role for role, is_asked in around.items() if is_asked)
    return tuple(dict.fromkeys((*_playing(request), *added)))


def _playing(request: RefinementRequest) -> tuple[str, ...]:
    """Return the keys of the models that the strategy can call."""
    roles = request.strategy.roles()
    if "critic" not in roles or not request.critics.panel:
        return roles
    asks = any(it.asks_critic for it in request.strategy.every())
    rest = tuple(role for role in roles if role != "critic" or asks)
    return (*rest, *request.critics.seats())


def _choice_of(named: str | ModelChoice) -> ModelChoice:
    return named if isinstance(named, ModelChoice) else ModelChoice(model=named)


NOMINAL_INPUT_TOKENS = 6_000
NOMINAL_OUTPUT_TOKENS = 3_000
"""Assumed consumption of each role in a refinement, for a candidate without ended ones."""

FLOOR_USD = 0.0001
"""Minimum cost of a refinement: one that costs less, or nothing, counts as this much."""


class Selection:
    """Draws the generator by what its candidates have achieved per dollar, at random from `rng`.

    Thompson sampling (Thompson 1933, Biometrika 25; arXiv 1707.02038) where every draw has a price:
    the sampled share of passes is divided by the cost, as for budgeted bandits (arXiv 1505.00146,
    which samples the cost as well; here its mean is used). Each candidate is picked about as often
    as it is likely to be the best: candidates with few results are explored, those with worse
    results are avoided.
    """

    def __init__(self, store: Store, rng: Random) -> None:
        self._store = store
        self._rng = rng

    async def pick(
        self, tenant: str, request: RefinementRequest, models: Choices
    ) -> tuple[Choices, Draw | None]:
        """Return the models with the drawn generator, and the draw; None without `select`."""
        candidates = request.models.candidates
        if not candidates:
            return models, None
        achieved = await self._store.achieved(tenant, candidates)
        others = [models[seat].model for seat in playing(request) if seat != "generator"]
        made = draw(achieved, others, self._rng)
        return {**models, "generator": ModelChoice(model=made.picked)}, made


def draw(achieved: Mapping[str, Achieved], others: Sequence[str], rng: Random) -> Draw:
    """Draw one of the models in `achieved`; `others` are the models of the other roles.

    The price of every candidate must be known.
    """
    candidates = tuple(_drawn(model, it, others, rng) for model, it in achieved.items())
    best = max(candidates, key=lambda it: it.sampled / it.mean_cost_usd)
    return Draw(candidates=candidates, picked=best.model)


def _drawn(model: str, achieved: Achieved, others: Sequence[str], rng: Random) -> Drawn:
    mean = achieved.mean_cost_usd
    expected = _nominal_usd(model, others) if mean is None else mean
    sampled = rng.betavariate(1 + achieved.passed, 1 + achieved.ended - achieved.passed)
    return Drawn(
        model=model,
        passed=achieved.passed,
        ended=achieved.ended,
        mean_cost_usd=max(expected, FLOOR_USD),
        sampled=sampled,
    )


def _nominal_usd(model: str, others: Sequence[str]) -> float:
    costs = (cost_usd(it, NOMINAL_INPUT_TOKENS, NOMINAL_OUTPUT_TOKENS) for it in (model, *others))
    return sum(cost or 0.0 for cost in costs)
