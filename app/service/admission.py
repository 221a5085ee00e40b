"""Checks whether this server can do what a request asks, and points at what it cannot."""

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
from math import inf

from app.contract.access import Quotas
from app.contract.budget import Rewriting, first_judgement, rewriting
from app.contract.editor import EDITOR, measure_for
from app.contract.errors import FieldError, InvalidRequest, pointer_to
from app.contract.json_schemas import MAX_VALUES, schema_errors
from app.contract.judgement import AUTO, CRITIC
from app.contract.models import GENERATOR, ROLES, ModelChoice, ModelName
from app.contract.providers import capacity_of, cost_usd
from app.contract.regexes import PatternError, compile_pattern
from app.contract.requests import RefinementRequest
from app.contract.tools import Tool
from app.contract.validators import ENDPOINTS, RESOURCES, AnyValidator, Regex, Resource, Schema
from app.contract.values import value
from app.service.model_roles import Choices, ModelRoles, called_seats
from app.settings import Settings

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
