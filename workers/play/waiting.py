"""Waits for models and endpoints: which branches and refinements wait, for what, and until when."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from app.contract.limits import Limits, TimeLimit
from app.store import Claimed
from workers.models.port import ModelWaits

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
        self.close()
        self._due = due
        self._timer = self._loop.call_at(due[0], passed, due[1])

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer:
            self._timer.cancel()

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
        self._more[model] = max(0, self._more[model] - refinements)

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
        if not self._calls_to[model]:
            del self._calls_to[model]
        self._calling.pop(calls, None)
        if calls in self._slow:
            self._slow_of.subtract(self._slow.pop(calls))
        if calls.models:
            self._calling[calls] = None  # as the last one: they are in the order of their times

    def answered_quickly(self, model: str, now: float) -> None:
        """Learn that a model replied within `SLOW_S`: another refinement is let in."""
        self._quick_at[model] = now
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
