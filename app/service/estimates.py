"""Estimates what a request would consume, without running it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf

from app.contract.budget import (
    CHECKLIST,
    REWRITTEN_BYTES_PER_TOKEN,
    Cap,
    Consumption,
    RefinementEstimate,
    ReplySize,
    critique_size,
    draft_size,
    output_bounds,
    usual_prompt_tokens,
)
from app.contract.calls import CONFIRMED, at_most, questions
from app.contract.drafts import is_long
from app.contract.judgement import AUTO, CRITIC, MOST_LISTED
from app.contract.models import GENERATOR, ModelChoice
from app.contract.providers import cost_usd
from app.contract.requests import RefinementRequest
from app.service.admission import Choices, called_seats

COMPARED = 300
"""Expected output tokens of a comparison, and of a further text."""

LONGER = 1.5
"""How many times as long as expected the texts and replies of 95 in 100 refinements are at most."""

MOST_TOLD = 4
"""How many earlier replies one prompt of the strategy itself has then, at most."""

AGAIN_SHARE = 0.1
"""The share of questions of such a refinement that are asked again."""


@dataclass(frozen=True, slots=True)
class _Calls:
    """A number of calls of one model, each with the same input and output."""

    times: int
    choice: ModelChoice
    input_tokens: int
    output_tokens: int


def estimated(request: RefinementRequest, choices: Choices) -> RefinementEstimate:
    """Return what a request that was admitted would consume; `choices` are the models by seat."""
    used = {seat: choices[seat] for seat in called_seats(request)}
    stop, calls = request.stop, at_most(request)
    long = _sum(_Play(request, choices, is_usual=False).calls())
    return RefinementEstimate(
        strategy=request.strategy.kind,
        models={seat: choice.model for seat, choice in used.items()},
        expected=_sum(_Play(request, choices, is_usual=True).calls()),
        p95=_within_budget(request, long.model_copy(update={"calls": min(long.calls, calls)})),
        cap=Cap(calls=calls, max_tokens=stop.max_tokens, max_cost_usd=stop.max_cost_usd),
    )


@dataclass(frozen=True)
class _Play:
    """The calls of a refinement that goes as most do, or of one that is longer than 95 in 100.

    The latter takes all turns of its loops, asks some questions again, and every text and reply in
    it, thinking included, is `LONGER` than expected.
    """

    request: RefinementRequest
    choices: Choices
    is_usual: bool

    def calls(self) -> Iterator[_Calls]:
        """Yield them by kind."""
        request, number = self.request, questions(self.request, is_usual=self.is_usual)
        text, prompt = self._text, usual_prompt_tokens(request)
        critique = critique_size(_most_criteria(request)).expected
        findings = round(critique * (1 if self.is_usual else LONGER))
        yield self._call(number.listed, CRITIC, prompt, CHECKLIST.expected)
        about = text if request.strategy.asks_critic or is_long(request.draft) else 0
        if not self.is_usual:
            about += min(request.strategy.replies_in_prompt(request.draft), MOST_TOLD) * text
        yield self._call(number.asked, GENERATOR, prompt + about, draft_size(request).expected)
        amended = self._written if request.edits == "full" else self._written // 4 + COMPARED
        for seat, times in self._revising(number.revised):
            yield self._call(times, seat, prompt + text + findings, amended)
        for seat in request.critics.seats():
            times = number.judged * request.critics.samples * self._confirmed
            yield self._call(times, seat, prompt + text, critique)
        yield self._call(number.compared, CRITIC, prompt + 2 * text, COMPARED)
        yield self._call(number.derived, GENERATOR, prompt + text, COMPARED)

    def _revising(self, revised: int) -> Iterator[tuple[str, int]]:
        """Yield the seat of each generator with the number of its revisions.

        A search is taken to be as long as that of the whole. In a long play each may be of any.
        """
        later, models = self.request.models.later_generators(), self.request.models
        if not later or not self.is_usual:
            yield GENERATOR, revised
            return
        drafts = ceil(self.request.max_iterations / 2)
        before = 0
        for number, seat in enumerate((GENERATOR, *later), 1):
            last = drafts if seat == later[-1] else min(drafts, number * models.escalate_after)
            own = round(revised * last / drafts) - before
            before += own
            yield seat, own

    def _call(self, times: int, seat: str, input_tokens: int, written: int) -> _Calls:
        choice = self._choice(seat)
        output = output_bounds(choice, ReplySize(written, written)).expected
        if self.is_usual:
            return _Calls(times, choice, input_tokens, output)
        again = ceil(AGAIN_SHARE * times)
        most = round(LONGER * output)
        most = output_bounds(choice, ReplySize(most, most), thought=0).expected
        return _Calls(times + again, choice, input_tokens, most)

    def _choice(self, seat: str) -> ModelChoice:
        """Return the model of a seat; in a long play any of several generators may write."""
        choice = self.choices[seat]
        later = self.request.models.later_generators()
        if seat != GENERATOR or self.is_usual or not later:
            return choice
        more = (name for each in later for name in self.choices[each].names())
        return choice.model_copy(update={"fallbacks": (*choice.fallbacks, *more)})

    @property
    def _confirmed(self) -> int:
        """How often a draft is judged."""
        if self.request.stop.confidence is None:
            return 1
        return 2 if self.is_usual else 1 + CONFIRMED

    @cached_property
    def _written(self) -> int:
        """The expected tokens of a draft, or of a part of one that is too long for one prompt."""
        draft = self.request.draft
        if draft is None:
            return draft_size(self.request).expected
        parts = len(self.request.strategy.read_in_parts(draft))
        return len(draft.encode()) // REWRITTEN_BYTES_PER_TOKEN // max(1, parts)

    @property
    def _text(self) -> int:
        """The tokens of a draft in a prompt."""
        return round(self._written * (1 if self.is_usual else LONGER))


def _most_criteria(request: RefinementRequest) -> int:
    return MOST_LISTED if request.criteria == AUTO else max(map(len, request.rubrics()))


def _dollars(choice: ModelChoice, input_tokens: int, output_tokens: int) -> float:
    """Return the cost of one call of the dearest model; infinity if a price is unknown.

    Its input is written to the cache if that costs more.
    """
    costs = (
        cost_usd(model, input_tokens, output_tokens, cache_written=written)
        for model in choice.names()
        for written in (0, input_tokens)
    )
    return max(inf if cost is None else cost for cost in costs)


def _consumes(choice: ModelChoice) -> bool:
    return any(not name.startswith("offline:") for name in choice.names())


def _sum(calls: Iterable[_Calls]) -> Consumption:
    """Return what calls consume together."""
    made = [call for call in calls if call.times]
    paid = [call for call in made if _consumes(call.choice)]
    asked = sum(call.times * call.input_tokens for call in paid)
    written = sum(call.times * call.output_tokens for call in paid)
    cost = sum(
        call.times * _dollars(call.choice, call.input_tokens, call.output_tokens) for call in paid
    )
    return Consumption(
        calls=sum(call.times for call in made),
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
