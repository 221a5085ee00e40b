"""How long a model's reply may be: as the text needs it, and as the budget pays for it."""

import json
from collections.abc import Iterable
from functools import cached_property
from math import inf

from app.contract.budget import (
    PROMPT_TOKENS,
    Estimate,
    Models,
    call_estimate,
    first_draft,
    prompt_tokens,
    read_again,
    to_judge,
    to_write,
)
from app.contract.judgement import Usage
from app.contract.limits import Limits
from app.contract.models import ModelChoice, seat_at
from app.contract.output_tokens import (
    CHECKLIST,
    DEFAULT_MAX_OUTPUT_TOKENS,
    ORDINARY,
    SLACK,
    OutputBounds,
    ReplySize,
    as_long_as,
    asked_length,
    critique_size,
    draft_size,
    output_bounds,
    tokens_in,
)
from app.contract.requests import RefinementRequest
from app.contract.values import value
from workers.engine.moves import Ask
from workers.engine.prompt_requests import PromptRequest
from workers.engine.prompts.drafting import (
    Amend,
    Derive,
    Reason,
    Redo,
    Revise,
    RevisePassages,
    Solve,
    Write,
)
from workers.engine.prompts.judging import Compare, Judge, ListCriteria
from workers.engine.prompts.verification import Answer, CheckSteps, Contradict, Question, Vote

SHORT = ReplySize(300, SLACK)


def reply_size(prompt_request: PromptRequest, request: RefinementRequest) -> ReplySize:
    """Return the size of the reply to a prompt request; of an unknown kind it is a text."""
    size = ORDINARY
    match prompt_request:
        case Write() | Reason():
            size = draft_size(request)
        case Solve():  # the reasons come before the answer
            asked = draft_size(request)
            size = ReplySize(asked.expected, max(asked.most, ORDINARY.most))
        case Revise(draft=draft) | Redo(rest=draft):
            size = as_long_as(max(tokens_in(draft), asked_length(request)))
        case Amend(revision=Revise(draft=draft)):
            whole = tokens_in(draft)
            size = ReplySize(whole // 4 + SHORT.expected, 2 * whole + SLACK)
        case Derive(draft=draft):
            size = ReplySize(SHORT.expected, 2 * tokens_in(draft) + SLACK)
        case Judge(task=task):
            size = critique_size(len(task.criteria))
        case ListCriteria():
            size = CHECKLIST
        case Question(most=number):
            size = as_long_as(100 * number)
        case Contradict(answered=answered):
            size = as_long_as(100 + 80 * len(answered))
        case CheckSteps(draft=text) | RevisePassages(marked=text):
            size = as_long_as(100 + tokens_in(text))
        case Vote(answers=answers):
            size = as_long_as(100 + 10 * len(answers))
        case Answer() | Compare():
            size = SHORT
    return size


@value(slots=True)
class Spendable:
    """Tokens and US dollars; infinite where nothing limits them."""

    tokens: float
    cost_usd: float

    @classmethod
    def of(cls, calls: Iterable[Estimate]) -> "Spendable":
        """Return what calls consume together."""
        listed = list(calls)
        return cls(sum(it.tokens for it in listed), sum(it.cost_usd for it in listed))

    def less(self, other: "Spendable") -> "Spendable":
        """Return what is left after something was spent."""
        left = 0.0 if other.cost_usd == inf else self.cost_usd - other.cost_usd
        return Spendable(self.tokens - other.tokens, inf if self.cost_usd == inf else left)

    def shared(self, parts: int) -> "Spendable":
        """Return one of several equal parts."""
        return Spendable(self.tokens / parts, self.cost_usd / parts)

    def covers(self, needed: "Spendable") -> bool:
        """Return whether it is enough."""
        is_paid = self.cost_usd == inf or needed.cost_usd <= self.cost_usd
        return needed.tokens <= self.tokens and is_paid


class BudgetGuard:
    """Decides whether the budget allows a call, and how long its reply may be.

    A call is admitted by what it is expected to consume, with enough left to judge one draft; a
    call that prepares a draft must leave enough to write and judge it. The limit that is sent is
    what the rest of the budget pays for, so that no reply exceeds it. Until it is settled, a call
    holds what it may consume at most. Branches that ask side by side get equal shares.

    `unknown` is the most output tokens of a model whose maximum is unknown.
    """

    def __init__(
        self, request: RefinementRequest, models: Models, unknown: int = DEFAULT_MAX_OUTPUT_TOKENS
    ) -> None:
        self._request = request
        self._models = models
        self._unknown = unknown
        self._reserved: dict[str, Spendable] = {}
        self._thought: int | None = None
        self.branches = 1
        """How many branches may ask side by side."""

    def _choice(self, ask: Ask) -> ModelChoice:
        return self._models[seat_at(self._models, ask.seat, ask.path)]

    def reserve(self, ask: Ask, spent: Usage, limits: Limits) -> Ask | None:
        """Return the call with its limit, and hold what it may consume until it is settled.

        Returns None, and holds nothing, if `limits` do not pay for what it is expected to consume.
        """
        asked = tokens_in(ask.prompt.system) + tokens_in(ask.prompt.user)
        if ask.prompt.is_document:  # its words do not say what the schema says
            asked += tokens_in(json.dumps(ask.prompt.schema, ensure_ascii=False))
        self._thought = spent.thinking_tokens // spent.calls if spent.calls else None
        bounds = self._bounds(ask, asked)
        if limits.max_tokens is None and limits.max_cost_usd is None:
            return _bounded(ask, bounds.most, bounds)
        left = self._left(spent, limits)
        if not left.covers(self._needed(ask, asked, bounds.expected)):
            return None
        share = left.shared(max(1, self.branches - len(self._reserved)))
        output = self._longest(ask, asked, bounds, share)
        self._reserved[ask.path] = self._needed(ask, asked, output)
        return _bounded(ask, output, bounds)

    def waits_for_others(self, ask: Ask) -> bool:
        """Return whether other calls in flight hold a part of the budget."""
        return bool(self._reserved.keys() - {ask.path})

    def settle(self, path: str) -> None:
        """Release what was held; the reply's usage says what was consumed."""
        self._reserved.pop(path, None)

    def _bounds(self, ask: Ask, asked: int) -> OutputBounds:
        """Return the bounds of a reply. A judgement is admitted if its text can be paid for: what
        was left for it included thinking."""
        size, choice = reply_size(ask.prompt_request, self._request), self._choice(ask)
        thought = 0 if isinstance(ask.prompt_request, Judge) else self._thought
        # A text may need more than the setting says, and the server knows what its model can give;
        # a verdict that needs more repeats itself.
        unknown = self._unknown << (ask.room if ask.prompt.asks_for_text else 0)
        return output_bounds(choice, size, asked, unknown, thought, ask.room)

    def _left(self, spent: Usage, limits: Limits) -> Spendable:
        """Return what is neither spent nor held; nothing if the cost so far is unknown."""
        tokens = inf if limits.max_tokens is None else limits.max_tokens
        usd = inf if limits.max_cost_usd is None else limits.max_cost_usd
        cost = inf if spent.cost_usd is None else spent.cost_usd
        left = Spendable(tokens, usd).less(
            Spendable(spent.input_tokens + spent.output_tokens, cost)
        )
        for held in self._reserved.values():
            left = left.less(held)
        return left

    def _longest(self, ask: Ask, asked: int, bounds: OutputBounds, share: Spendable) -> int:
        """Return the highest limit that a share pays for, at least what is expected."""
        share = share.less(Spendable.of(self._afterwards(ask)))
        if share.covers(self._needed(ask, asked, bounds.most)):
            return bounds.most
        low, high = bounds.expected, bounds.most - 1
        while low < high:
            middle = (low + high + 1) // 2
            if share.covers(self._needed(ask, asked, middle)):
                low = middle
            else:
                high = middle - 1
        return low

    def _needed(self, ask: Ask, asked: int, output: int) -> Spendable:
        """Return what a call with a reply of that length consumes, and what must follow it."""
        call = call_estimate(self._choice(ask), asked, output)
        if ask.prepares:
            return Spendable.of((call, *to_write(self._request, self._models, asked, output)))
        if self._writes_a_draft(ask):
            judged = self._observed(ask, asked) + read_again(output)
            judging = to_judge(self._request, self._models, judged, self._thought)
            return Spendable.of((call, *judging))
        return Spendable.of((call,))

    def _afterwards(self, ask: Ask) -> tuple[Estimate, ...]:
        """Return what a long reply must leave, although the call is admitted without it."""
        if isinstance(ask.prompt_request, ListCriteria):
            return self._first_draft
        if ask.role == "generator" or isinstance(ask.prompt_request, Judge | Compare):
            return ()
        return self._judging

    @staticmethod
    def _writes_a_draft(ask: Ask) -> bool:
        return ask.role == "generator" and not isinstance(ask.prompt_request, Derive)

    def _observed(self, ask: Ask, asked: int) -> int:
        """Return the tokens that a first draft is written from and judged with, beside the request.

        The instructions of a critic may be longer than those of a writer.
        """
        if isinstance(ask.prompt_request, RevisePassages):  # the rest is judged with them
            return tokens_in(ask.prompt_request.revision.draft)
        is_first = isinstance(ask.prompt_request, Write | Solve)
        return max(0, PROMPT_TOKENS + asked - self._prompt) if is_first else 0

    @cached_property
    def _prompt(self) -> int:
        """The tokens of a prompt that holds the request."""
        return prompt_tokens(self._request)

    @cached_property
    def _judging(self) -> tuple[Estimate, ...]:
        """What judging a draft consumes; computed only if there is a budget."""
        return to_judge(self._request, self._models)

    @cached_property
    def _first_draft(self) -> tuple[Estimate, ...]:
        return first_draft(self._request, self._models)


def _bounded(ask: Ask, most: int, bounds: OutputBounds) -> Ask:
    return ask.changed(max_output_tokens=most, expected_output_tokens=bounds.expected)
