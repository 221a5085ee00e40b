"""Admits requests: chooses the model of each seat, and points at what this server cannot do.

`Selection` draws the model of a seat for which a request names several.
"""

import asyncio
import time
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from itertools import chain, islice
from math import inf, sqrt
from random import Random

from app.contract.access import Quotas
from app.contract.budget import Rewriting, first_judgement, rewriting
from app.contract.editor import EDITOR, measure_for
from app.contract.errors import FieldError, InvalidRequest, pointer_to
from app.contract.events import Draw, Drawn
from app.contract.json_schemas import MAX_VALUES, schema_errors
from app.contract.judgement import AUTO, CRITIC
from app.contract.models import GENERATOR, ROLES, ModelChoice, ModelName
from app.contract.offers import ModelLimit
from app.contract.providers import PROVIDERS, Provider, added, capacity_of, cost_usd, provider_of
from app.contract.regexes import PatternError, compile_pattern
from app.contract.requests import RefinementRequest
from app.contract.tools import Tool
from app.contract.validators import ENDPOINTS, RESOURCES, AnyValidator, Regex, Resource, Schema
from app.contract.values import value
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


UNLIMITED = Quotas()
MAX_ERRORS = 10
COMPILE_S = 2.0  # CPU time to compile the patterns and schemas of one request

Wrong = tuple[str, str]
"""The JSON Pointer of a value, and what is wrong with it."""


def check_validators(
    validators: Sequence[tuple[str, AnyValidator]],
    tools: Sequence[Tool] = (),
    cpu_s: float = COMPILE_S,
) -> tuple[FieldError, ...]:
    """Return at most `MAX_ERRORS` errors; `validators` come with their JSON Pointers.

    Each error has a JSON Pointer such as `/validators/0/pattern`.

    A hostile request takes up to a second of CPU time: call it in a thread. What would begin after
    `cpu_s` seconds is an error; a busy machine is none.
    """
    return _field_errors(islice(_errors(validators, tools, cpu_s), MAX_ERRORS))


def _field_errors(wrong: Iterable[Wrong]) -> tuple[FieldError, ...]:
    """Return each error once."""
    once = dict.fromkeys(wrong)
    return tuple(FieldError(pointer=pointer, detail=detail) for pointer, detail in once)


def _errors(
    validators: Sequence[tuple[str, AnyValidator]], tools: Sequence[Tool], cpu_s: float
) -> Iterator[Wrong]:
    allowed, began = MAX_VALUES, time.thread_time()
    for pointer, given in _given(validators, tools):
        if time.thread_time() - began > cpu_s:
            detail = f"patterns and schemas took more than {cpu_s:g} seconds to compile"
            yield "/validators", detail
            return
        if isinstance(given, Regex):
            try:
                compile_pattern(given.pattern, case_sensitive=given.case_sensitive)
            except PatternError as error:
                yield pointer, str(error)
        else:
            errors, size = schema_errors(given, allowed)
            allowed -= size
            yield from ((pointer + pointer_to(*path), detail) for path, detail in errors)


def _given(
    validators: Sequence[tuple[str, AnyValidator]], tools: Sequence[Tool]
) -> Iterator[tuple[str, Regex | Schema]]:
    """Yield every pattern and schema of a request with its JSON Pointer."""
    for pointer, validator in validators:
        for at, given in chain(validator.regexes().items(), validator.json_schemas().items()):
            yield f"{pointer}{at}", given
    for index, tool in enumerate(tools):
        yield f"/tools/{index}/parameters", tool.parameters


def pointer_of(request: RefinementRequest, seat: str) -> str:
    """Return the JSON Pointer of the model's name; `/models` if the server's default is used."""
    at, named = _named_at(request, seat)
    if named is None:
        return "/models"
    return f"{at}/model" if isinstance(named, ModelChoice) else at


def _named_at(request: RefinementRequest, seat: str) -> tuple[str, ModelName | ModelChoice | None]:
    """Return the JSON Pointer of a choice, and the choice; by default a critic has its role's."""
    for index, member in enumerate(request.critics.panel):
        if member.seat == seat and member.model is not None:
            return f"/critics/panel/{index}/model", member.model
    named = request.models.named()
    chosen = seat if seat in named else seat.partition("/")[0]
    return named.get(chosen, (f"/models/{chosen}", None))


def _unfit_judges(request: RefinementRequest, models: Mapping[str, str]) -> Iterator[Wrong]:
    """Yield each judgement that the editor cannot make; `models` is by seat."""
    judging = [seat for seat in request.critics.seats() if models.get(seat) == EDITOR]
    if judging and not all(any(map(measure_for, rubric)) for rubric in request.rubrics()):
        detail = (
            f"{EDITOR} can measure none of these criteria: use criteria such as clarity,"
            " conciseness or spelling, or name a language model as critic, in models.critic or in"
            " critics.panel"
        )
        yield "/criteria", detail
    for index, member in enumerate(request.critics.panel):
        if member.seat in judging and (member.perspective or member.adversarial):
            detail = (
                f"{EDITOR} does not support perspective and adversarial: omit them, or name a"
                " language model in `model`"
            )
            yield f"/critics/panel/{index}", detail


def _unfit_for_a_checklist(
    request: RefinementRequest, choices: Mapping[str, ModelChoice]
) -> Iterator[Wrong]:
    """Yield each place where the editor would judge on another model's criteria."""
    if request.criteria != AUTO or set(choices[CRITIC].names()) == {EDITOR}:
        return
    detail = (
        f"{EDITOR} may be unable to measure the criteria of a language model's checklist: use it"
        " for all critics or for none, or list the criteria yourself"
    )
    for seat in dict.fromkeys((CRITIC, *request.critics.seats())):
        if EDITOR in choices[seat].names():
            yield pointer_of(request, seat), detail


def switched_off(settings: Settings) -> frozenset[Resource]:
    """Return the optional resources that this server does not have."""
    return frozenset(each for each in RESOURCES if not getattr(settings, each.setting))


async def no_keys() -> Collection[str]:
    """Return the providers of a tenant without keys of its own."""
    return ()


@value(slots=True)
class Admitted:
    """A request that this server can carry out, with what its models decide."""

    request: RefinementRequest
    choices: Choices
    """The model of every seat, whether the strategy uses it or not."""


@value(slots=True)
class NamedModel:
    """A model that a request may call: for which seat, and where the request names it."""

    pointer: str
    seat: str
    choice: ModelChoice
    stands_in: bool = False
    """Whether it is a fallback, a later generator, or a candidate that may be drawn."""


def named_models(request: RefinementRequest, used: Choices) -> Iterator[NamedModel]:
    """Yield every model that a request may call, fallbacks and candidates last."""
    drawn_from, later = request.models.drawn_from(), request.models.later_generators()
    for seat, choice in used.items():
        if seat in later:
            pointer = pointer_of(request, seat)
            yield NamedModel(pointer, GENERATOR, choice, stands_in=True)
        elif seat not in drawn_from:
            yield NamedModel(pointer_of(request, seat), seat, choice)
    for seat, choice in used.items():
        field, candidates = drawn_from.get(seat, ("", ()))
        at = f"/models/{field}" if candidates else f"{_named_at(request, seat)[0]}/fallbacks"
        stands_for = GENERATOR if seat in later else seat
        for index, model in enumerate(candidates or choice.fallbacks):
            stand_in = choice.model_copy(update={"model": model, "fallbacks": ()})
            yield NamedModel(f"{at}/{index}", stands_for, stand_in, stands_in=True)


class Admission:
    """Admits requests that the chosen models can carry out without the resources in `off`."""

    def __init__(
        self, model_roles: ModelRoles, off: Collection[Resource], retention_max_s: float = inf
    ) -> None:
        self._model_roles = model_roles
        self._off = off
        self._retention_max_s = retention_max_s

    async def admit(
        self,
        request: RefinementRequest,
        own_keys: Callable[[], Awaitable[Collection[str]]] = no_keys,
        quotas: Quotas = UNLIMITED,
    ) -> Admitted:
        """Return the request with the model of every seat, or raise InvalidRequest with all errors.

        `own_keys` returns the providers for which the tenant has a key of its own, if it matters;
        `quotas` say which models the tenant may use.
        """
        choices = self._model_roles.choices(request)
        used = {seat: choices[seat] for seat in called_seats(request)}
        models = tuple(named_models(request, used))
        why_not = self._model_roles.why_not
        keys = await own_keys() if any(why_not(named.choice.model) for named in models) else ()
        errors = _field_errors(self._errors(request, used, models, keys))
        errors = errors or await _compiled(request) or _field_errors(_forbidden(models, quotas))
        if errors:
            raise InvalidRequest.at(*errors)
        return Admitted(self._settled(request, choices), choices)

    def require_prices(self, models: Iterable[str]) -> None:
        """Raise InvalidRequest unless every model has a price: a limit could not be enforced."""
        unpriced = [model for model in models if cost_usd(model, 0, 0) is None]
        if unpriced:
            raise InvalidRequest.at(
                *_field_errors(("/max_cost_usd", _unpriced(model)) for model in unpriced)
            )

    def _errors(
        self,
        request: RefinementRequest,
        used: Choices,
        models: Sequence[NamedModel],
        own_keys: Collection[str],
    ) -> Iterator[Wrong]:
        for pointer, validator in request.all_validators():
            if (needed := validator.needs) and needed in self._off:
                yield f"{pointer}/kind", needed.missing
        for field in ("tools", "webhook"):
            if getattr(request, field) and ENDPOINTS in self._off:
                yield f"/{field}", ENDPOINTS.missing
        for field in ("task", "draft"):
            text = getattr(request, field)
            if text is not None and not text.strip():
                yield f"/{field}", "has only white space"
        if (kept_s := request.retention_s) is not None and kept_s > self._retention_max_s:
            detail = f"this server keeps refinements for {self._retention_max_s} seconds at most"
            yield "/retention_s", detail
        why_not = self._model_roles.why_not
        uncallable = [
            *_unselectable(request, used),
            *((of.pointer, why) for of in models if (why := why_not(of.choice.model, own_keys))),
        ]
        yield from uncallable
        if not uncallable:
            yield from _unable(request, models)
            yield from _unfit_for_a_checklist(request, used)
            yield from _over_budget(request, used, models)
            if request.edits == "full" and not request.spans and "generator" in used:
                yield from self._unfit_to_rewrite(request, used)

    def _settled(self, request: RefinementRequest, choices: Choices) -> RefinementRequest:
        """Return the request with the settings that depend on the models.

        `edits: auto` becomes `delta` if a generator or one of its fallbacks cannot rewrite the
        whole draft in one reply; of parts each is looked at when it is revised. A deterministic
        generator cannot try a different draft, so `stop.escape` is switched off.
        """
        changes: dict[str, object] = {}
        is_whole = request.edits == "auto" and request.strategy.rewrites
        if is_whole and any(self._unfit_to_rewrite(request, choices)):
            changes["edits"] = "delta"
        if all(set(choice.names()) == {EDITOR} for choice in _generators(request, choices)):
            changes["stop"] = request.stop.model_copy(update={"escape": False})
        return request.model_copy(update=changes) if changes else request

    def _unfit_to_rewrite(self, request: RefinementRequest, choices: Choices) -> Iterator[Wrong]:
        """Yield each model that cannot rewrite the whole draft in one reply."""
        unknown = self._model_roles.max_output_tokens
        for generator in _generators(request, choices):
            chosen = generator.max_output_tokens
            for model in generator.names():
                found = rewriting(request, model, chosen, unknown)
                if found and not found.fits:
                    yield "/edits", _too_long(model, found, is_chosen=chosen is not None)


def _generators(request: RefinementRequest, choices: Choices) -> list[ModelChoice]:
    return [choices[seat] for seat in (GENERATOR, *request.models.later_generators())]


def _forbidden(models: Iterable[NamedModel], quotas: Quotas) -> Iterator[Wrong]:
    """Yield each model that the tenant may not use."""
    for named in models:
        if not quotas.allows(model := named.choice.model):
            yield named.pointer, f"this tenant may not use {model}"


def _unable(request: RefinementRequest, models: Sequence[NamedModel]) -> Iterator[Wrong]:
    """Yield each thing that a model cannot do; of a stand-in, at its own name."""
    first = {named.seat: named.choice for named in models if not named.stands_in}
    yield from _unable_as(request, first)
    for named in models:
        if named.stands_in:
            for _, detail in _unable_as(request, {named.seat: named.choice}):
                yield named.pointer, detail


def _language_error(request: RefinementRequest, choices: Choices) -> Wrong | None:
    editing = {seat for seat, choice in choices.items() if choice.model == EDITOR}
    for strategy in request.strategy.every():
        need = strategy.language_need()
        roles = [role for role in need.roles if role in editing] if need else []
        if need and roles:
            named = " and ".join(f"models.{role}" for role in roles)
            return pointer_of(request, roles[0]), (
                f"{strategy.kind} {need.does}, which {EDITOR} cannot do: name a language model in"
                f" {named}, such as openai:gpt-5-mini"
            )
    return None


def _unable_as(request: RefinementRequest, choices: Choices) -> Iterator[Wrong]:
    if error := _language_error(request, choices):
        yield error
        return
    models = {seat: choice.model for seat, choice in choices.items()}
    for role, pointer, cannot, instead in _needing_language(request):
        if models.get(role) == EDITOR:
            named = f"name a language model in models.{role}, such as openai:gpt-5-mini"
            yield pointer, f"{EDITOR} {cannot}: {instead}, or {named}"
    yield from _unfit_judges(request, models)


def _needing_language(request: RefinementRequest) -> Iterator[tuple[str, str, str, str]]:
    """Yield role, field, why the editor cannot do what it asks, and what to do instead."""
    if request.needs_a_writer():
        yield "generator", "/draft", "improves a text and cannot write one", "give a draft"
    if request.feedback is not None:
        yield "generator", "/feedback", "cannot follow feedback", "omit it"
    if request.outputs:
        yield "generator", "/outputs", "cannot write outputs", "omit them"
    for role in ROLES:
        if getattr(request.instructions, role):
            yield role, f"/instructions/{role}", "cannot follow instructions", "omit them"


def _unselectable(request: RefinementRequest, choices: Choices) -> Iterator[Wrong]:
    for role, (field, candidates) in request.models.drawn_from().items():
        if role not in choices:
            has = "a panel of critics" if request.critics.panel and role == CRITIC else f"no {role}"
            detail = f"`{field}` is not supported: {request.strategy.kind} has {has} here"
            yield f"/models/{field}", detail
        for index, model in enumerate(candidates):
            if request.models.select == "auto" and cost_usd(model, 0, 0) is None:
                detail = (
                    f"the price of {model} is unknown, so it cannot be compared by gain per dollar:"
                    " use `select: gain`"
                )
                yield f"/models/{field}/{index}", detail


def _unpriced(model: str) -> str:
    return (
        f"the price of {model} is unknown, so max_cost_usd cannot be enforced: set max_tokens"
        " instead"
    )


def _too_long(model: str, found: Rewriting, *, is_chosen: bool) -> str:
    limit = f"`max_output_tokens` allows {model}" if is_chosen else f"{model} has room for"
    raised = ""
    if is_chosen:
        raised = ", omit `max_output_tokens`"
    elif capacity_of(model) is None:
        raised = ", raise HONE_MAX_OUTPUT_TOKENS on the server if the model can write more"
    return (
        f"rewriting this draft (with nested, a part of it) takes about {found.needed} output"
        f" tokens, and {limit} {max(found.most, 0)}: set `edits` to `delta` or `auto`, use the"
        f" strategy nested, which refines it part by part{raised}, or name a model that can write"
        " more in models.generator"
    )


def _over_budget(
    request: RefinementRequest, choices: Choices, models: Sequence[NamedModel]
) -> Iterator[Wrong]:
    """Yield each budget that is too small to judge a first draft."""
    max_tokens, max_cost_usd = request.stop.max_tokens, request.stop.max_cost_usd
    if max_tokens is None and max_cost_usd is None:
        return
    calls = first_judgement(request, choices)
    least = sum(call.tokens for call in calls)
    if max_tokens is not None and max_tokens < least:
        detail = (
            f"writing and judging one draft is expected to take {least} tokens; max_tokens must be"
            " at least that"
        )
        yield "/stop/max_tokens", detail
    if max_cost_usd is None:
        return
    for named in models:
        if cost_usd(named.choice.model, 0, 0) is None:
            pointer = named.pointer if named.stands_in else "/stop/max_cost_usd"
            yield pointer, _unpriced(named.choice.model)
    if max_cost_usd < (cost := sum(call.cost_usd for call in calls)) < inf:
        detail = (
            f"writing and judging one draft is expected to cost {cost:.6f} dollars; max_cost_usd"
            " must be at least that"
        )
        yield "/stop/max_cost_usd", detail


async def _compiled(request: RefinementRequest) -> tuple[FieldError, ...]:
    validators = list(request.all_validators())
    if not validators and not request.tools:
        return ()
    return await asyncio.to_thread(check_validators, validators, request.tools)


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
