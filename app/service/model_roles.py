"""The model of each seat: whether this server can call it, and how one is drawn."""

from collections.abc import Callable, Collection, Mapping, Sequence
from math import sqrt
from random import Random

from app.contract.events import Draw, Drawn
from app.contract.judgement import AUTO, CRITIC
from app.contract.models import ROLES, ModelChoice
from app.contract.offers import ModelLimit
from app.contract.providers import PROVIDERS, Provider, added, cost_usd, provider_of
from app.contract.requests import RefinementRequest
from app.settings import Settings
from app.store import Store
from app.store.rate_limits import StoredLimit
from app.store.statistics import Achieved, Agreement, critic_of, kind_of_task

Choices = Mapping[str, ModelChoice]


class ModelRoles:
    """The models of this server. Raises ValueError for a default model that it cannot call."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lacking = frozenset(
            provider.name for provider in PROVIDERS if settings.lacks_key(provider)
        )
        self.default = ModelChoice(model=settings.model)
        if reason := self.why_not(settings.model):
            raise ValueError(f"HONE_MODEL is {settings.model}, but {reason}")

    @property
    def max_output_tokens(self) -> int:
        """The most output tokens of a model whose own maximum is unknown."""
        return self._settings.max_output_tokens

    def choices(self, request: RefinementRequest) -> Choices:
        """Return the model of every role, whether the strategy uses it or not, of every critic of a
        panel as `critic/<name>`, and of later generators as `generator/2` and so on."""
        choices: dict[str, ModelChoice] = dict.fromkeys(ROLES, self.default)
        for seat, (_, spec) in request.models.named().items():
            choices[seat] = _choice_of(spec)
        for role, (_, candidates) in request.models.drawn_from().items():
            # Until one is drawn it may be any of them.
            first = ModelChoice(model=candidates[0])
            choices[role] = first.model_copy(update={"fallbacks": candidates[1:]})
        for member in request.critics.panel:
            named = member.model
            choices[member.seat] = choices["critic"] if named is None else _choice_of(named)
        return choices

    def why_not(self, model: str, own_keys: Collection[str] = ()) -> str | None:
        """Return why a model cannot be called, and how to change that; None if it can.

        `own_keys` are the providers for which the caller has a key of its own.
        """
        provider = provider_of(model, self._settings.providers)
        if provider is None:
            known = ", ".join(form for provider in self.providers() for form in provider.forms())
            return f"unknown model {model[:100]!r}; this server supports {known}"
        return None if provider.name in own_keys else self.missing(provider)

    def providers(self) -> tuple[Provider, ...]:
        """Return every provider that a request can name."""
        return (
            *(provider for provider in PROVIDERS if provider.is_offered),
            *map(added, self._settings.providers),
        )

    def missing(self, provider: Provider) -> str | None:
        """Return the setting that a provider's models need to be called; None if it is set."""
        if not provider.needs_key or provider.name not in self._lacking:
            return None
        return f"{provider.name} needs a key: set {provider.key_variable} on the server"

    def limits_of(
        self, provider: Provider, stored: Sequence[StoredLimit]
    ) -> tuple[ModelLimit, ...]:
        """Return the caps and limits of a provider's models that concern the key set now."""
        if provider.wire is None:
            return ()
        fingerprint = self._settings.fingerprint_of(provider)
        mine = [limit.limit for limit in stored if limit.fingerprint == fingerprint]
        learnt = {
            limit.name: limit for limit in mine if limit.name.partition(":")[0] == provider.name
        }
        capped = {name for name in self._settings.limits if name.startswith(f"{provider.name}:")}
        return tuple(
            learnt.get(name, ModelLimit(name=name)).model_copy(
                update={"caps": self._settings.limits.get(name)}
            )
            for name in sorted(learnt.keys() | capped)
        )


def called_seats(request: RefinementRequest) -> tuple[str, ...]:
    """Return the seats whose models the request can call."""
    found = dict.fromkeys(_playing(request))
    if request.compare or request.criteria == AUTO:
        found["critic"] = None
    if request.outputs or request.review:
        found["generator"] = None
    if "generator" in found:
        found |= dict.fromkeys(request.models.later_generators())
    return tuple(found)


def _playing(request: RefinementRequest) -> tuple[str, ...]:
    """Return the seats whose models the strategy can call."""
    roles = request.strategy.roles()
    if "critic" not in roles or not request.critics.panel:
        return roles
    asks = any(strategy.asks_critic for strategy in request.strategy.every())
    rest = tuple(role for role in roles if role != "critic" or asks)
    return (*rest, *request.critics.seats())


def _choice_of(named: str | ModelChoice) -> ModelChoice:
    return named if isinstance(named, ModelChoice) else ModelChoice(model=named)


NOMINAL_INPUT_TOKENS = 6_000
NOMINAL_OUTPUT_TOKENS = 3_000
"""Assumed consumption of each role in a refinement, for a candidate without ended ones."""

FLOOR_USD = 0.0001
"""Minimum cost of a refinement: one that costs less, or nothing, counts as this much."""


PRIOR_GAIN, PRIOR_WEIGHT = 0.5, 1.0
"""The gain that is expected of a model without ended refinements, and how many it counts for."""

PRIOR_SHAPE, PRIOR_SPREAD = 1.0, 0.02
"""Inverse gamma distribution of the variance of gains."""

TRUST_SD = 0.3
"""Standard deviation of what is believed of a critic of whom nothing is known."""


class Selection:
    """Draws models by what the candidates have achieved per dollar, at random from `rng`.

    Thompson sampling (Thompson 1933, Biometrika 25; arXiv 1707.02038) where every draw has a price:
    the sampled gain is divided by the cost, as for budgeted bandits (arXiv 1505.00146, which
    samples the cost as well; here its mean is used). Each candidate is picked about as often as it
    is likely to be the best: candidates with few results are explored, those with worse results are
    avoided. Only refinements of the same kind count: a model that is good at one task may be bad at
    another.
    """

    def __init__(self, store: Store, rng: Random) -> None:
        self._store = store
        self._rng = rng

    async def pick(
        self, tenant: str, request: RefinementRequest, models: Choices
    ) -> tuple[Choices, Mapping[str, Draw]]:
        """Return the models with those that were drawn, and the draws by seat."""
        roles = {role: names for role, (_, names) in request.models.drawn_from().items()}
        if not roles:
            return models, {}
        seats: dict[str, tuple[str, ...]] = dict(roles)
        if "generator" in roles:
            stages = request.strategy.stage_paths()
            seats |= {f"generator/{path}": roles["generator"] for path in stages}
        kind, critics = kind_of_task(request), critic_names(request)
        known = await self._store.statistics.achieved(tenant, kind, seats)
        trusted = await self._store.statistics.agreements(
            tenant, [critics(critic) for critic in seats.get(CRITIC, ())]
        )
        others = [models[seat].model for seat in called_seats(request) if seat not in roles]
        counts_cost = request.models.select == "auto"
        draws = {
            seat: draw(
                achieved,
                others,
                self._rng,
                counts_cost=counts_cost,
                trusted={model: trusted[critics(model)] for model in achieved}
                if seat == CRITIC
                else None,
            ).model_copy(update={"kind": kind})
            for seat, achieved in known.items()
        }
        drawn = {seat: ModelChoice(model=found.picked) for seat, found in draws.items()}
        return {**models, **drawn}, draws


def critic_names(request: RefinementRequest) -> Callable[[str], str]:
    """Return the function by which a model gets the name under which its scores are compared."""
    return lambda model: critic_of(request, dict.fromkeys(request.critics.seats(), model))


def draw(
    achieved: Mapping[str, Achieved],
    others: Sequence[str],
    rng: Random,
    *,
    counts_cost: bool = True,
    trusted: Mapping[str, Agreement] | None = None,
) -> Draw:
    """Draw one of the models in `achieved`; `others` are the models of the other seats.

    Critics are `trusted` instead: gains are what they measure themselves. If it `counts_cost`, the
    price of every candidate must be known.
    """
    nominal = {model: _nominal_usd(model, others) for model in achieved}
    scale = _scale(achieved, nominal)
    candidates = tuple(
        _drawn(
            model,
            known,
            None if (usd := nominal[model]) is None else usd * scale,
            _agreement(trusted[model], rng) if trusted else _gain(known, rng),
        )
        for model, known in achieved.items()
    )
    prices = {
        candidate.model: candidate.mean_cost_usd if counts_cost else None
        for candidate in candidates
    }
    best = max(candidates, key=lambda candidate: candidate.sampled / (prices[candidate.model] or 1))
    return Draw(candidates=candidates, picked=best.model)


def _drawn(model: str, achieved: Achieved, nominal: float | None, sampled: float) -> Drawn:
    cost, gain = achieved.mean_cost_usd, achieved.mean_gain
    expected = nominal if cost is None else cost
    return Drawn(
        model=model,
        passed=achieved.passed,
        ended=achieved.ended,
        mean_gain=None if gain is None else round(gain, 6),
        mean_cost_usd=None if expected is None else max(expected, FLOOR_USD),
        sampled=sampled,
    )


def _gain(achieved: Achieved, rng: Random) -> float:
    """Sample a mean gain from what is believed of it: a normal-inverse-gamma distribution."""
    count, total = achieved.ended, achieved.gain
    mean = total / count if count else 0.0
    weight = PRIOR_WEIGHT + count
    center = (PRIOR_WEIGHT * PRIOR_GAIN + total) / weight
    spread = max(achieved.squares - count * mean**2, 0.0)
    shift = PRIOR_WEIGHT * count * (mean - PRIOR_GAIN) ** 2 / weight
    scale = PRIOR_SPREAD + (spread + shift) / 2
    variance = scale / rng.gammavariate(PRIOR_SHAPE + count / 2, 1.0)
    return _share(rng.gauss(center, sqrt(variance / weight)))


def _agreement(found: Agreement, rng: Random) -> float:
    """Sample how far a critic agrees with others from what is believed of it."""
    return _share(rng.gauss(found.trust, TRUST_SD / sqrt(1 + found.square)))


def _share(sampled: float) -> float:
    return min(1.0, max(0.0, sampled))


def _scale(achieved: Mapping[str, Achieved], nominal: Mapping[str, float | None]) -> float:
    """Return how much dearer these tasks are than a nominal one, by the candidates with results."""
    pairs = [
        (known.cost_usd, usd * known.priced)
        for model, known in achieved.items()
        if (usd := nominal[model])
    ]
    expected = sum(usd for _, usd in pairs)
    return sum(cost for cost, _ in pairs) / expected if expected else 1.0


def _nominal_usd(model: str, others: Sequence[str]) -> float | None:
    own = cost_usd(model, NOMINAL_INPUT_TOKENS, NOMINAL_OUTPUT_TOKENS)
    if own is None:
        return None
    costs = (cost_usd(other, NOMINAL_INPUT_TOKENS, NOMINAL_OUTPUT_TOKENS) for other in others)
    return own + sum(cost or 0.0 for cost in costs)
