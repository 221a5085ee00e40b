"""Estimates what a request would consume, without running it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import inf

from app.contract.budget import (
    REWRITTEN_BYTES_PER_TOKEN,
    prompt_tokens,
    read_again,
    usual_prompt_tokens,
)
from app.contract.calls import AGAIN, Questions, judgements, questions, revising
from app.contract.criteria import AUTO, CRITIC, MOST_LISTED
from app.contract.estimates import Consumption, RefinementEstimate
from app.contract.models import ModelChoice
from app.contract.output_tokens import (
    BYTES_PER_TOKEN,
    CHECKLIST,
    ORDINARY,
    ReplySize,
    as_long_as,
    asked_length,
    critique_size,
    draft_size,
    output_bounds,
    tokens_in,
)
from app.contract.providers import capacity_of, cost_usd
from app.contract.requests import RefinementRequest
from app.contract.tools import MAX_RESULT
from app.service.model_roles import Choices, playing

GENERATOR = "generator"
COMPARED = 300
"""Expected output tokens of a comparison, and of a further text."""

MOST_LISTS = 1_200
"""Tokens that a verdict about questions and answers takes beyond the text that it is about."""

MOST_GROWTH = 20
"""Revisions after which no text grows any more: each may double it, up to what a model can give."""


@dataclass(frozen=True, slots=True)
class _Calls:
    """A number of calls of one model, each with the same input and output."""

    times: int
    choice: ModelChoice
    input_tokens: int
    output_tokens: int


def estimated(request: RefinementRequest, choices: Choices, unknown: int) -> RefinementEstimate:
    """Return what a request that was admitted would consume.

    `choices` are the models by role, `unknown` is the most output tokens of a model whose own
    maximum is not known.
    """
    used = {seat: choices[seat] for seat in playing(request)}
    return RefinementEstimate(
        strategy=request.strategy.kind,
        models={seat: it.model for seat, it in used.items()},
        expected=_sum(_Usual(request, choices).calls()),
        at_most=_within_budget(request, _sum(_Worst(request, choices, unknown).calls())),
    )


@dataclass(frozen=True)
class _Usual:
    """The calls of a refinement that goes as most do."""

    request: RefinementRequest
    choices: Choices

    def calls(self) -> Iterator[_Calls]:
        """Yield them by kind."""
        request, number = self.request, questions(self.request, is_usual=True)
        text, prompt = self._text, usual_prompt_tokens(request)
        critique = critique_size(_most_criteria(request)).expected
        yield self._call(number.listed, CRITIC, prompt, CHECKLIST.expected)
        about = text if request.strategy.asks_critic else 0
        yield self._call(number.asked, GENERATOR, prompt + about, draft_size(request).expected)
        amended = text if request.edits == "full" else text // 4 + COMPARED
        yield self._call(number.revised, GENERATOR, prompt + text + critique, amended)
        confirmed = 1 if request.stop.confidence is None else 2
        for seat in request.critics.seats():
            times = number.judged * request.critics.samples * confirmed
            yield self._call(times, seat, prompt + text, critique)
        yield self._call(number.compared, CRITIC, prompt + 2 * text, COMPARED)
        yield self._call(number.derived, GENERATOR, prompt + text, COMPARED)

    def _call(self, times: int, seat: str, input_tokens: int, written: int) -> _Calls:
        size = ReplySize(written, written)
        choice = self.choices[seat]
        return _Calls(times, choice, input_tokens, output_bounds(choice, size).expected)

    @cached_property
    def _text(self) -> int:
        """The tokens of a draft."""
        draft = self.request.draft
        if draft is None:
            return draft_size(self.request).expected
        return len(draft.encode()) // REWRITTEN_BYTES_PER_TOKEN


@dataclass(frozen=True)
class _Worst:
    """The calls of a refinement in which everything that can go badly does."""

    request: RefinementRequest
    choices: Choices
    unknown: int

    def calls(self) -> Iterator[_Calls]:
        """Yield them by kind, each question with those that repeat it."""
        request, number = self.request, questions(self.request)
        text = self._longest(number)
        critique = critique_size(_most_criteria(request))
        written = ReplySize(ORDINARY.expected, max(ORDINARY.most, as_long_as(text).most))
        checked = as_long_as(text + MOST_LISTS)
        asked = max(written, checked, key=lambda it: it.most)
        prompt = self._prompt(text, critique)
        yield from self._repeated(number.listed, CRITIC, prompt, CHECKLIST)
        yield from self._repeated(number.asked, self._dearest(), prompt, asked)
        rewritten = as_long_as(max(text, asked_length(request)))
        for attempt in range(revising(request)):
            yield self._attempt(number.revised, GENERATOR, prompt, rewritten, attempt)
        for seat in request.critics.seats():
            times = number.judged * judgements(request)
            yield from self._repeated(times, seat, prompt, critique)
        yield from self._repeated(number.compared, CRITIC, prompt, critique)
        yield from self._repeated(number.derived, GENERATOR, prompt, as_long_as(text))

    def _repeated(
        self, times: int, seat: str, input_tokens: int, size: ReplySize
    ) -> Iterator[_Calls]:
        for attempt in range(1 + AGAIN):
            yield self._attempt(times, seat, input_tokens, size, attempt)

    def _attempt(
        self, times: int, seat: str, input_tokens: int, size: ReplySize, attempt: int
    ) -> _Calls:
        room = min(attempt, AGAIN)  # a reply that was cut off gets twice the room
        choice = self.choices[seat]
        most = self._most_output(choice, size, room)
        return _Calls(times, choice, _fitting(choice, input_tokens), most)

    def _most_output(self, choice: ModelChoice, size: ReplySize, room: int) -> int:
        unknown = self.unknown << room
        return output_bounds(choice, size, unknown=unknown, doublings=room).most

    def _dearest(self) -> str:
        """Return the role that answers the questions of the strategy itself, the dearest of two."""
        roles = self.request.strategy.roles()
        return max(roles, key=lambda it: _dollars(self.choices[it], 1_000, 1_000))

    def _prompt(self, text: int, critique: ReplySize) -> int:
        """Return the most input tokens of a prompt.

        It has the request, two texts to compare, an unusable reply, and what critics said.
        """
        request = self.request
        given = [request.draft or "", *request.locked, *(it.instructions for it in request.outputs)]
        texts = 1 + 2 * request.strategy.replies_in_prompt(request.draft)
        seats = request.critics.seats()
        said = sum(self._most_output(self.choices[it], critique, AGAIN) for it in seats)
        told = read_again(said * request.critics.samples)
        return prompt_tokens(request) + sum(map(tokens_in, given)) + texts * text + 2 * told

    def _longest(self, number: Questions) -> int:
        """Return the tokens of the longest text in a prompt that a model may have written."""
        given = self.request.draft
        text = tokens_in(given or "")
        if number.asked:
            first = max(draft_size(self.request), ORDINARY, key=lambda it: it.most)
            text = max(text, self._as_read(first))
        if self.request.tools:
            text = max(text, MAX_RESULT // BYTES_PER_TOKEN)
        for _ in range(min(number.revised + number.asked, MOST_GROWTH)):
            text = max(text, self._as_read(as_long_as(text)))
        return text

    def _as_read(self, size: ReplySize) -> int:
        return read_again(self._most_output(self.choices[GENERATOR], size, AGAIN))


def _most_criteria(request: RefinementRequest) -> int:
    return MOST_LISTED if request.criteria == AUTO else max(map(len, request.rubrics()))


def _fitting(choice: ModelChoice, input_tokens: int) -> int:
    """Return the input, or the most that one of the models takes if that is known and less."""
    capacities = [capacity_of(it) for it in choice.names()]
    return min(
        input_tokens, max(input_tokens if it is None else it.context_tokens for it in capacities)
    )


def _dollars(choice: ModelChoice, input_tokens: int, output_tokens: int) -> float:
    """Return the cost of one call of the dearest model; infinity if a price is unknown.

    Its input is written to the cache if that costs more.
    """
    costs = (
        cost_usd(model, input_tokens, output_tokens, cache_written=written)
        for model in choice.names()
        for written in (0, input_tokens)
    )
    return max(inf if it is None else it for it in costs)


def _consumes(choice: ModelChoice) -> bool:
    return any(not it.startswith("offline:") for it in choice.names())


def _sum(calls: Iterable[_Calls]) -> Consumption:
    """Return what calls consume together."""
    made = [it for it in calls if it.times]
    paid = [it for it in made if _consumes(it.choice)]
    asked = sum(it.times * it.input_tokens for it in paid)
    written = sum(it.times * it.output_tokens for it in paid)
    cost = sum(it.times * _dollars(it.choice, it.input_tokens, it.output_tokens) for it in paid)
    return Consumption(
        calls=sum(it.times for it in made),
        input_tokens=asked,
        output_tokens=written,
        tokens=asked + written,
        cost_usd=None if cost == inf else round(cost, 6),
    )


def _within_budget(request: RefinementRequest, most: Consumption) -> Consumption:
    """Return the same with the limits of the request, which bound tokens and dollars."""
    tokens, dollars = request.stop.max_tokens, request.stop.max_cost_usd
    if tokens is None:
        tokens = most.tokens
    if dollars is None:
        dollars = most.cost_usd
    elif most.cost_usd is not None:
        dollars = min(dollars, most.cost_usd)
    changes = {
        "input_tokens": min(most.input_tokens, tokens),
        "output_tokens": min(most.output_tokens, tokens),
        "tokens": min(most.tokens, tokens),
        "cost_usd": dollars,
    }
    return most.model_copy(update=changes)
