"""What is decided before a refinement is stored.

A request that could not end well is refused while its client is still there to change it.
"""

import asyncio
from collections.abc import Iterator, Mapping

from app.contract.budget import first_judgement, least_tokens
from app.contract.editor import EDITOR, measure_for
from app.contract.errors import FieldError, InvalidRequest
from app.contract.patterns import check_validators
from app.contract.providers import cost_usd
from app.contract.requests import RefinementRequest
from app.service.casting import PLAYING, Casting, Choices

COMPILE_S = 2.0
"""Seconds that the patterns and schemas of one request may take to compile."""


class Admission:
    """Admits what the models of a cast can do; validators that are `off` have a reason each."""

    def __init__(self, casting: Casting, off: Mapping[str, str]) -> None:
        self.casting = casting
        self._off = off

    async def admit(self, request: RefinementRequest) -> Choices:
        """Return the model of every role, or raise InvalidRequest with all that is wrong."""
        choices = self.casting.choices(request)
        errors = tuple(self._errors(request, choices)) or await _compiled(request)
        if errors:
            raise InvalidRequest(errors[0].detail, errors=errors)
        return choices

    def require_prices(self, models: dict[str, str]) -> None:
        """Return when every model has a price, else raise InvalidRequest: a cap could not hold."""
        errors = tuple(
            FieldError(pointer="/max_cost_usd", detail=_unpriced(model))
            for model in models.values()
            if cost_usd(model, 0, 0) is None
        )
        if errors:
            raise InvalidRequest(errors[0].detail, errors=errors)

    def _errors(self, request: RefinementRequest, choices: Choices) -> Iterator[FieldError]:
        for index, validator in enumerate(request.validators):
            if reason := self._off.get(validator.kind):
                yield FieldError(pointer=f"/validators/{index}/kind", detail=reason)
        playing: Choices = {role: choices[role] for role in PLAYING[request.strategy.kind]}
        reasons = {role: self.casting.why_not(choice.model) for role, choice in playing.items()}
        for role, why_not in reasons.items():
            if why_not:
                yield FieldError(pointer=_pointer(request, role), detail=why_not)
        if not any(reasons.values()):
            yield from _unable(request, playing)
            yield from _over_budget(request, playing)


def _unable(request: RefinementRequest, choices: Choices) -> Iterator[FieldError]:
    models = {role: choice.model for role, choice in choices.items()}
    if request.needs_a_writer() and models.get("generator") == EDITOR:
        yield FieldError(
            pointer="/draft",
            detail=f"{EDITOR} improves a text and cannot write one: give a draft, or name a"
            " model that writes in models.generator, such as openai:gpt-5-mini",
        )
    is_measured = all(any(map(measure_for, rubric)) for rubric in request.rubrics())
    if models.get("critic") == EDITOR and not is_measured:
        yield FieldError(
            pointer="/criteria",
            detail=f"{EDITOR} can measure none of these criteria: ask for clarity, conciseness,"
            " spelling or the like, or name a language model in models.critic",
        )


def _pointer(request: RefinementRequest, role: str) -> str:
    named = getattr(request.models, role)
    if named is None:
        return "/models"
    return f"/models/{role}" if isinstance(named, str) else f"/models/{role}/model"


def _unpriced(model: str) -> str:
    return (
        f"the price of {model} is not known, so a cap on cost cannot hold: cap max_tokens instead"
    )


def _over_budget(request: RefinementRequest, choices: Choices) -> Iterator[FieldError]:
    """A budget that ends before anything is judged buys nothing."""
    max_tokens, max_cost_usd = request.stop.max_tokens, request.stop.max_cost_usd
    least = least_tokens(request, choices)
    if max_tokens is not None and max_tokens < least:
        detail = f"judging one draft may take {least} tokens; allow at least that many"
        yield FieldError(pointer="/stop/max_tokens", detail=detail)
    if max_cost_usd is None:
        return
    calls = first_judgement(request, choices)
    costs = [cost_usd(call.model, call.input_tokens, call.output_tokens) for call in calls]
    for model in sorted({choice.model for choice in choices.values()}):
        if cost_usd(model, 0, 0) is None:
            yield FieldError(pointer="/stop/max_cost_usd", detail=_unpriced(model))
    known = [cost for cost in costs if cost is not None]
    if len(known) == len(costs) and sum(known) > max_cost_usd:
        detail = f"judging one draft may cost {sum(known):.6f} dollars; allow at least that much"
        yield FieldError(pointer="/stop/max_cost_usd", detail=detail)


async def _compiled(request: RefinementRequest) -> tuple[FieldError, ...]:
    try:
        async with asyncio.timeout(COMPILE_S):
            return await asyncio.to_thread(check_validators, request.validators)
    except TimeoutError:
        detail = f"patterns and schemas took more than {COMPILE_S:.0f} seconds to compile"
        return (FieldError(pointer="/validators", detail=detail),)
