"""Budgets of refinements and of a tenant's day: how long a reply may be, and which calls wait."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
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
from app.contract.limits import Limits
from app.contract.models import ModelChoice, seat_at
from app.contract.requests import RefinementRequest
from app.contract.values import value
from app.contract.waiting import QUOTA_OF
from app.settings import Settings
from app.store import NOTHING_SPENT, DaySpending, ReportSpending, Spent, open_spending
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
from workers.models.port import ModelCall, ModelError, ModelReply, ModelWaits
from workers.play.executor import ModelCaller

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
        return ask.role == "generator" and not isinstance(ask.prompt_request, Derive | ReadPart)

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
                self._known |= {tenant: (now, usage) for tenant, usage in found.items()}
                self._sending = {}
            if self._later is None and self._reserved():
                self._later = loop.call_later(HELD_S, self._report_now)
        except (RedisError, OSError, TimeoutError) as error:
            self._failed_at = loop.time()
            log.warning("what tenants spend is not shared until Redis is back: %s", error)
        finally:
            self._reporting = None
