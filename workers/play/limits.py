"""What limits refinements: their budgets and times, the day of a tenant, and models that hang.

The budget says how long a reply may be, and which calls wait for others. Waits for models and
endpoints are known here as well: which branches and refinements wait, for what, and until when.
"""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from math import inf

from redis.exceptions import RedisError

from app.contract.access import OPERATOR
from app.contract.budget import (
    CHECKLIST,
    DEFAULT_MAX_OUTPUT_TOKENS,
    ORDINARY,
    PROMPT_TOKENS,
    SLACK,
    Estimate,
    Models,
    OutputBounds,
    ReplySize,
    as_long_as,
    asked_length,
    call_estimate,
    critique_size,
    draft_size,
    first_draft,
    output_bounds,
    prompt_tokens,
    read_again,
    rewriting,
    to_judge,
    to_write,
    tokens_in,
)
from app.contract.judgement import Usage
from app.contract.limits import Limits, TimeLimit
from app.contract.models import ModelChoice, seat_at
from app.contract.requests import RefinementRequest
from app.contract.values import value
from app.contract.waiting import QUOTA_OF
from app.settings import Settings
from app.store import NOTHING_SPENT, Claimed, DaySpending, ReportSpending, Spent, open_spending
from workers.engine.long_documents import ReadPart
from workers.engine.moves import Ask
from workers.engine.prompts import (
    Amend,
    Compare,
    Derive,
    Judge,
    ListCriteria,
    PromptRequest,
    Reason,
    Redo,
    Revise,
    RevisePassages,
    Solve,
    Write,
)
from workers.engine.verification import Answer, CheckSteps, Contradict, Question, Vote
from workers.models.port import ModelCall, ModelCaller, ModelError, ModelReply, ModelWaits

log = logging.getLogger(__name__)


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
        case ListCriteria() | ReadPart():
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
        return cls(
            sum(estimate.tokens for estimate in listed),
            sum(estimate.cost_usd for estimate in listed),
        )

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
        seat = seat_at(self._models, ask.seat, ask.path)
        if seat not in self._models:
            seats = ", ".join(self._models)
            raise ValueError(f"{ask.path} asks the role {seat!r}; those with a model are: {seats}")
        return self._models[seat]

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

    def overlong(self, ask: Ask) -> str | None:
        """Return why no reply can be as long as a text that is to be rewritten; None if one can.

        Admission refuses to rewrite such a draft whole, and so is a part or a revision of it.
        """
        asked = ask.prompt_request
        if self._request.edits == "full" or not isinstance(asked, Revise):
            return None
        choice = self._choice(ask)
        for model in choice.names():
            most = choice.max_output_tokens
            found = rewriting(self._request, model, most, self._unknown, asked.draft)
            if found and not found.fits:
                return (
                    f"rewriting this text takes about {found.needed} output tokens, and {model} has"
                    f" room for {max(found.most, 0)}"
                )
        return None

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
        if ask.role == "generator" and not isinstance(ask.prompt_request, Derive | ReadPart):
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


PARK_AFTER_S = 5.0
"""A refinement whose branches all wait for as long as this needs no worker meanwhile."""


class EveryBranchWaits(Exception):
    """Nothing can go on for `PARK_AFTER_S` seconds: this claim ends.

    `keys` names the steps that wait, and `awaited` what they wait for: models, endpoints, quotas.
    """

    def __init__(self, keys: tuple[str, ...], awaited: tuple[str, ...]) -> None:
        super().__init__(f"waiting for {', '.join(awaited)}")
        self.keys = keys
        self.awaited = awaited


CHECKS_END_S = 3.0
"""For so long checks go on after a limit of time or a finish: what is written then is judged."""


class TimeLimits:
    """The timer of `max_seconds`, `max_wait_seconds` and the deadline of a claimed refinement.

    While every branch waits only `max_wait_seconds` counts, else only `max_seconds`; the deadline
    always does. Redis gives the time of the claim, and the event loop all later times.
    """

    def __init__(self, claimed: Claimed) -> None:
        self._loop = asyncio.get_running_loop()
        self._claimed_at, self._claimed = self._loop.time(), claimed.at
        self._played_from = self._claimed_at - claimed.elapsed_s
        self._waited_s = claimed.waited_s
        self._waits_since: float | None = None
        self._deadline = None if claimed.left_s is None else self._claimed_at + claimed.left_s
        self._limits: Limits | None = None
        self._due: tuple[float, TimeLimit] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._checks_timer: asyncio.TimerHandle | None = None

    def waited_s(self) -> float:
        """Return for how many seconds nothing went on because every branch waited."""
        since = self._waits_since
        return self._waited_s + (0.0 if since is None else self._loop.time() - since)

    def time_in(self, seconds: float) -> datetime:
        """Return the time of Redis in so many seconds."""
        return self._claimed + timedelta(seconds=self._loop.time() - self._claimed_at + seconds)

    def set(self, limits: Limits, passed: Callable[[TimeLimit], None], *, waits: bool) -> None:
        """Call `passed` at the first limit, by these limits; this replaces the timer before.

        Only the timer refers to `passed`: a reference here would form a cycle with its owner, and
        the data of an ended refinement would wait for the garbage collector (docs/adr/0004).
        """
        if limits is self._limits and waits == (self._waits_since is not None):
            return  # nothing that the timer depends on has changed
        self._limits = limits
        self._switch(waits)
        due = self._first(limits)
        if due == self._due:
            return
        if self._timer:
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_at(due[0], passed, due[1])

    def end_checks(self, over: Callable[[], None]) -> None:
        """Call `over`, which is always the same, `CHECKS_END_S` after the first call of this."""
        if self._checks_timer is None:
            self._checks_timer = self._loop.call_later(CHECKS_END_S, over)

    def close(self) -> None:
        """Cancel the timers."""
        for timer in (self._timer, self._checks_timer):
            if timer:
                timer.cancel()

    def _switch(self, waits: bool) -> None:
        now = self._loop.time()
        if waits and self._waits_since is None:
            self._waits_since = now
        elif not waits and self._waits_since is not None:
            self._waited_s += now - self._waits_since
            self._played_from += now - self._waits_since
            self._waits_since = None

    def _first(self, limits: Limits) -> tuple[float, TimeLimit]:
        due: tuple[float, TimeLimit] = (self._played_from + limits.max_seconds, "max_seconds")
        if self._waits_since is not None:
            longest = self._waits_since + limits.max_wait_seconds - self._waited_s
            due = (longest, "max_wait_seconds")
        return due if self._deadline is None else min(due, (self._deadline, "deadline"))


class BranchWaits:
    """The parts of a strategy that go on side by side, and which of them wait."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._branches = 1
        self._waits: dict[str, tuple[float, tuple[str, ...]]] = {}
        self._parked: EveryBranchWaits | None = None
        self._interrupted = asyncio.Event()

    @property
    def is_everywhere(self) -> bool:
        """Whether every branch waits."""
        return 0 < self._branches == len(self._waits)

    def has(self, key: str) -> bool:
        """Return whether a step waits."""
        return key in self._waits

    def split(self, parts: int) -> None:
        """Count a branch as so many parts side by side."""
        self._branches += parts - 1

    def ended(self) -> None:
        """Count a part that has ended: the others may all wait from now on."""
        self._branches -= 1
        self._look()

    def join(self) -> None:
        """Count the branch that goes on after its parts."""
        self._branches += 1

    @contextmanager
    def waiting(self, key: str, wait_s: float, awaited: tuple[str, ...]) -> Iterator[None]:
        """Count a branch as waiting, for what its step waits for."""
        self._waits[key] = self._loop.time() + wait_s, awaited
        self._look()
        try:
            yield
        finally:
            del self._waits[key]

    async def over(self, key: str) -> None:
        """Return when the wait of a step is over, or when all waits are interrupted.

        Raises `EveryBranchWaits` as soon as every branch waits for `PARK_AFTER_S` or longer.
        """
        try:
            async with asyncio.timeout_at(self._waits[key][0]):
                await self._interrupted.wait()
        except TimeoutError:
            return
        if self._parked:
            raise self._parked

    def interrupt(self) -> None:
        """Let all waits end at once, including waits that begin later."""
        self._interrupted.set()

    @property
    def is_parked(self) -> bool:
        """Whether every branch has waited for long, and the claim ends."""
        return self._parked is not None

    def _look(self) -> None:
        if not self.is_everywhere or self._parked:
            return
        soonest = min(until for until, _ in self._waits.values())
        if soonest - self._loop.time() >= PARK_AFTER_S:
            awaited = dict.fromkeys(name for _, names in self._waits.values() for name in names)
            self._parked = EveryBranchWaits(tuple(self._waits), tuple(awaited))
            self._interrupted.set()


SLOW_S = 2.0
"""A refinement that has only waited for replies for as long as this needs no slot meanwhile."""
PROBE_EVERY_S = 10.0


class Bulkhead:
    """Divides what a worker can hold among models.

    A worker plays up to `slots` refinements at once, and holds up to `most_held`: a refinement that
    has only waited for replies for `SLOW_S` or longer needs no slot. The refinements that wait for
    one model may be at most `slots / (most_held - slots)` times as many as the worker can still
    take: as many as `slots` for one such model, fewer for the next. So however many models hang,
    refinements of another model find room ("dynamic thresholds": Choudhury and Hahne, IEEE/ACM
    Transactions on Networking 6(2), 1998). At that limit no further refinement starts to call the
    model until a call ends. Each reply within `SLOW_S` admits one more; one probes the model every
    `PROBE_EVERY_S`. After such a quick reply only refinements that have waited longer than `SLOW_S`
    count.

    With `most_held` equal to `slots` nothing is held back.
    """

    def __init__(self, slots: int, most_held: int, timeout_s: float = 120.0) -> None:
        self._slots, self._most_held, self._timeout_s = slots, most_held, timeout_s
        self._held = 0
        self._calling: dict[RefinementCalls, None] = {}
        self._slow: dict[RefinementCalls, tuple[str, ...]] = {}
        self._slow_of: Counter[str] = Counter()
        self._calls_to: Counter[str] = Counter()
        self._quick_at: dict[str, float] = {}
        self._lining_up: set[str] = set()
        self._more: Counter[str] = Counter()
        self._probe_at: dict[str, float] = {}

    def without_slot(self) -> int:
        """Return how many of the refinements that it holds need no slot now."""
        self._look()
        return len(self._slow)

    def calls(self) -> "RefinementCalls":
        """Return what counts the calls of a claimed refinement."""
        return RefinementCalls(self)

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Count a refinement as held."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    def holds_back(self, model: str) -> bool:
        """Return whether a refinement must wait before it calls a model for the first time."""
        waiting = self.waiting_for(model)
        if self._is_full(waiting):
            self._lining_up.add(model)
        return waiting > 0 and model in self._lining_up

    def held_back(self) -> list[str]:
        """Return the models that are held back."""
        return [model for model in self._calls_to if self.holds_back(model)]

    def parked(self, models: Collection[str]) -> None:
        """Learn for which models refinements wait without a worker: newer ones wait behind them."""
        self._lining_up.intersection_update(models)

    def room(self, model: str) -> int:
        """Return how many refinements that wait for a model without a worker it can take now."""
        waiting = self.waiting_for(model)
        if not waiting or self._most_held == self._slots:
            self._probe_at.pop(model, None)
            del self._more[model]
            return self._most_held
        now = asyncio.get_running_loop().time()
        if self._is_full(waiting) and now >= self._probe_at.setdefault(model, now + PROBE_EVERY_S):
            self._probe_at[model] = now + PROBE_EVERY_S
            self._more[model] = max(self._more[model], 1)
        left, others = self._most_held - self._held, self._most_held - self._slots
        room = (self._slots * left - waiting * others) // self._most_held
        return max(0, room, self._more[model])

    def resumed(self, model: str, refinements: int) -> None:
        """Count refinements that were resumed to call a model."""
        if (left := self._more.pop(model, 0) - refinements) > 0:
            self._more[model] = left

    def waiting_for(self, model: str) -> int:
        """Return how many refinements count as waiting for a model."""
        self._look()
        since = asyncio.get_running_loop().time() - SLOW_S
        is_quick = self._quick_at.get(model, since - 1) >= since
        return (self._slow_of if is_quick else self._calls_to)[model]

    def _is_full(self, waiting: int) -> bool:
        left = self._most_held - self._held
        return 0 < waiting * (self._most_held - self._slots) >= self._slots * left

    def changed(self, calls: "RefinementCalls", model: str, by: int) -> None:
        """Learn that a refinement makes a call more or less, and one more or less calls a model."""
        self._calls_to[model] += by
        self._calling.pop(calls, None)
        if calls in self._slow:
            self._slow_of.subtract(self._slow.pop(calls))
        if not self._calls_to[model]:
            del self._calls_to[model], self._slow_of[model], self._more[model]
            self._probe_at.pop(model, None)
        if calls.models:
            self._calling[calls] = None  # as the last one: they are in the order of their times

    def answered_quickly(self, model: str, now: float) -> None:
        """Learn that a model replied within `SLOW_S`: another refinement is let in."""
        self._quick_at.pop(model, None)
        self._quick_at[model] = now  # as the last one
        while self._quick_at[oldest := next(iter(self._quick_at))] < now - SLOW_S:
            del self._quick_at[oldest]
        if model in self._probe_at:
            self._more[model] += 1

    def _look(self) -> None:
        """Find the refinements that have only waited for `SLOW_S` by now."""
        if not self._calling:
            return
        since = asyncio.get_running_loop().time() - SLOW_S
        while self._calling and (calls := next(iter(self._calling))).changed_at <= since:
            del self._calling[calls]
            self._slow[calls] = models = tuple(calls.models)
            self._slow_of.update(models)

    def waits(self, model: str) -> ModelWaits:
        """Return the error for a call that waits, at the latest until the oldest times out."""
        now = asyncio.get_running_loop().time()
        oldest = next((calls.changed_at for calls, of in self._slow.items() if model in of), now)
        wait_s = max(2 * PARK_AFTER_S, oldest + self._timeout_s - now)
        words = f"{model} has not answered the calls of {self._calls_to[model]} refinements"
        return ModelWaits(model, "slow", wait_s, words)


class RefinementCalls:
    """The calls under way of one claimed refinement, and the models that it may go on calling."""

    def __init__(self, bulkhead: Bulkhead) -> None:
        self._bulkhead = bulkhead
        self._admitted: set[str] = set()
        self.models: Counter[str] = Counter()
        self.changed_at = 0.0

    def calling(self, model: str, *, has_permit: bool = False) -> "CallOfModel":
        """Return a context for `with`, during which a call counts as under way.

        Raises `ModelWaits` if the model is held back, unless the refinement has a permit or has
        called it since it was claimed.
        """
        if not has_permit and model not in self._admitted and self._bulkhead.holds_back(model):
            raise self._bulkhead.waits(model)
        self._admitted.add(model)
        return CallOfModel(self, model)

    def count(self, model: str, by: int) -> float:
        """Count a call that begins or ends; return the time."""
        self.changed_at = asyncio.get_running_loop().time()
        before = self.models.pop(model, 0)
        if before + by:
            self.models[model] = before + by
        self._bulkhead.changed(self, model, bool(before + by) - bool(before))
        return self.changed_at

    def end(self, model: str, began: float, *, is_answered: bool) -> None:
        """Count a call that ends, and learn whether the model replied quickly."""
        ended = self.count(model, -1)
        if is_answered and ended - began < SLOW_S:
            self._bulkhead.answered_quickly(model, ended)


class CallOfModel:
    """A call under way of one refinement."""

    __slots__ = ("_began", "_calls", "_model")

    def __init__(self, calls: RefinementCalls, model: str) -> None:
        self._calls, self._model = calls, model

    def __enter__(self) -> None:
        self._began = self._calls.count(self._model, 1)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._calls.end(self._model, self._began, is_answered=kind is None)


REPORTED_S = 1.0
"""Seconds between two reports, for which what other workers spend is not known."""


@asynccontextmanager
async def open_day_quotas(
    settings: Settings, models: ModelCaller, worker: str
) -> AsyncIterator[ModelCaller]:
    """Open what calls models within the quotas of tenants; without a Redis those models alone."""
    async with open_spending(settings, worker) as report:
        if report is None:
            yield models
            return
        quotas = DayQuotas(models, report, settings.without_cell0_s)
        try:
            yield quotas
        finally:
            await quotas.aclose()


CELL0_AGAIN_S = 10.0
"""When a call is expected that waits for cell 0: long enough that its refinement is parked."""
MOST_KNOWN = 10_000
"""Tenants of which it is known what they have left; others are asked about again."""
HELD_S = 15.0
"""Seconds between reports while something is reserved and nothing is spent."""


@dataclass(slots=True)
class RecentSpending:
    """What a worker spends of late: what lies `grace_s` back counts half."""

    tokens: float = 0.0
    cost_usd: float = 0.0
    at: float = 0.0

    def add(self, spent: Spent, grace_s: float, now: float) -> None:
        """Add what was spent now."""
        rest = 0.5 ** ((now - self.at) / grace_s)
        self.tokens = self.tokens * rest + spent.tokens
        self.cost_usd = self.cost_usd * rest + spent.cost_usd
        self.at = now

    def within(self, grace_s: float, now: float) -> Spent:
        """Return it; nothing if nothing was spent for so long."""
        if now - self.at > grace_s:
            return NOTHING_SPENT
        return Spent(round(self.tokens), self.cost_usd)


class DayQuotas:
    """Calls models for tenants that have something left today; calls of others wait until tomorrow.

    A call is let in as long as something is left, so that those in flight may exceed the quota.
    While Redis is away it goes by what it knew.

    With `grace_s` this is a worker of another cell. Without cell 0 it goes on for that time; for a
    tenant with a quota as long as something is left of what was reserved for it.
    """

    def __init__(
        self, models: ModelCaller, report: ReportSpending, grace_s: float | None = None
    ) -> None:
        self._models = models
        self._report = report
        self._grace_s = grace_s
        self._number = 0
        self._sending: dict[str, Spent] = {}  # sent again under its number after an error
        self._spent: dict[str, Spent] = {}
        self._known: dict[str, tuple[float, DaySpending]] = {}
        self._lately: dict[str, RecentSpending] = {}
        self._heard_at = self._failed_at = float("-inf")
        self._reporting: asyncio.Task[None] | None = None
        self._later: asyncio.TimerHandle | None = None

    async def complete(self, name: str, call: ModelCall) -> ModelReply:
        """Return the reply of a model; raise ModelWaits for a tenant that has nothing left today.

        Raises also what the model raises, and ModelWaits without cell 0.
        """
        if (over_s := await self._over_for(call.tenant)) is not None:
            detail = f"the quota of the day of {call.tenant} is used up"
            quota = f"{QUOTA_OF}{call.tenant}"
            raise ModelWaits(quota, "tenant_quota", over_s, detail, is_open=True)
        if self._lacks_cell0(call.tenant):
            detail = "cell 0, which shares limits and quotas out, does not answer"
            awaited = name if self._is_cut_off() else f"{QUOTA_OF}{call.tenant}"
            raise ModelWaits(awaited, "unreachable", CELL0_AGAIN_S, detail, is_open=True)
        try:
            reply = await self._models.complete(name, call)
        except (ModelError, ModelWaits) as error:
            self._count(call.tenant, error.usage)
            raise
        self._count(call.tenant, reply.usage)
        return reply

    async def permits(self, name: str, most: int) -> int:
        """Take up to `most` permits for refinements that wait for a model, or for a quota."""
        tenant = name.removeprefix(QUOTA_OF)
        if tenant == name:
            if self._is_cut_off():
                await self._ask()
            return 0 if self._is_cut_off() else await self._models.permits(name, most)
        is_over = await self._over_for(tenant) is not None
        return 0 if is_over or self._lacks_cell0(tenant) else most

    async def aclose(self) -> None:
        """Report what was spent since the last report, and give up what is reserved."""
        self._lately.clear()
        self._spent = self._reserved() | self._spent
        if self._later is not None:
            self._later.cancel()
        if self._spent or self._sending:
            await self._reported()

    def _is_cut_off(self) -> bool:
        """Return whether cell 0 has not answered for longer than the grace."""
        now = asyncio.get_running_loop().time()
        return self._grace_s is not None and now - self._heard_at > self._grace_s

    def _lacks_cell0(self, tenant: str) -> bool:
        """Return whether no call of a tenant may begin before cell 0 answers."""
        if self._grace_s is None or self._failed_at < self._heard_at:
            return False
        read_at, known = self._known.get(tenant, (0.0, None))
        if known is None or self._is_cut_off():
            return True
        spent = [of.get(tenant, NOTHING_SPENT) for of in (self._sending, self._spent)]
        is_today = asyncio.get_running_loop().time() - read_at < known.ends_in_s
        return known.is_limited and not (is_today and known.allows_alone(spent[0] + spent[1]))

    async def _ask(self) -> None:
        """Find out whether cell 0 answers again, at most once a second."""
        if asyncio.get_running_loop().time() - self._failed_at > REPORTED_S:
            self._spent.setdefault(OPERATOR, NOTHING_SPENT)
            await self._reported()

    def _reserved(self) -> dict[str, Spent]:
        """Return a report that nothing was spent for each tenant for which something is reserved.

        What is not wanted any longer is given up with it.
        """
        if self._grace_s is None:
            return {}
        return {
            tenant: NOTHING_SPENT
            for tenant, (_, known) in self._known.items()
            if known.reserved != NOTHING_SPENT
        }

    def _wanted(self) -> dict[str, Spent] | None:
        """Return what to reserve for each tenant of a report: what it spends in the grace.

        A worker goes by that at once, so that it never uses more than is reserved for it.
        """
        if self._grace_s is None:
            return None
        now, wanted = asyncio.get_running_loop().time(), {}
        for tenant in self._sending:
            lately = self._lately.get(tenant)
            wanted[tenant] = NOTHING_SPENT if lately is None else lately.within(self._grace_s, now)
            if tenant in self._known:
                read_at, known = self._known[tenant]
                lower = replace(known, reserved=known.reserved.at_most(wanted[tenant]))
                self._known[tenant] = read_at, lower
        return wanted

    async def _over_for(self, tenant: str) -> float | None:
        """Return the seconds until a tenant that has nothing left today may spend again."""
        now = asyncio.get_running_loop().time()
        read_at, known = self._known.get(tenant, (float("-inf"), None))
        if now - read_at > REPORTED_S and now - self._failed_at > REPORTED_S:
            self._spent.setdefault(tenant, NOTHING_SPENT)
            if known is None or known.is_limited or self._is_cut_off():
                await self._reported()
                read_at, known = self._known.get(tenant, (now, None))
            else:
                self._report_now()
        if known is None or not known.is_over:
            return None
        left_s = known.ends_in_s - (now - read_at)
        return left_s if left_s > 0 else None

    def _count(self, tenant: str, usage: Usage) -> None:
        tokens = usage.input_tokens + usage.output_tokens
        if not tokens and not usage.cost_usd:
            return
        loop, spent = asyncio.get_running_loop(), Spent(tokens, usage.cost_usd or 0.0)
        self._spent[tenant] = self._spent.get(tenant, NOTHING_SPENT) + spent
        if self._grace_s is not None:
            self._lately.setdefault(tenant, RecentSpending()).add(spent, self._grace_s, loop.time())
        if self._later is None:
            self._later = loop.call_later(REPORTED_S, self._report_now)

    def _report_now(self) -> None:
        if self._later is not None:
            self._later.cancel()
        self._later = None
        self._spent = self._reserved() | self._spent
        if self._reporting is None:
            self._reporting = asyncio.get_running_loop().create_task(self._send())

    async def _reported(self) -> None:
        """Report, or wait for the report under way; callers share it."""
        if self._reporting is None:
            self._reporting = asyncio.get_running_loop().create_task(self._send())
        await asyncio.shield(self._reporting)

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._sending or self._spent:
                if not self._sending:
                    self._number += 1
                    self._sending, self._spent = self._spent, {}
                sent_at = loop.time()
                found = await self._report(self._number, self._sending, self._wanted())
                now, self._heard_at = loop.time(), sent_at
                for tenant, usage in found.items():
                    self._known.pop(tenant, None)
                    self._known[tenant] = now, usage  # the last one goes last
                for tenant in [*self._known][:-MOST_KNOWN]:
                    del self._known[tenant]
                    self._lately.pop(tenant, None)
                self._sending = {}
            if self._later is None and self._reserved():
                self._later = loop.call_later(HELD_S, self._report_now)
        except (RedisError, OSError, TimeoutError) as error:
            self._failed_at = loop.time()
            log.warning("what tenants spend is not shared until Redis is back: %s", error)
        finally:
            self._reporting = None
