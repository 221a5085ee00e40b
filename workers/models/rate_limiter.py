"""Which call may be made now: one rate and one breaker per model, shared by all workers.

A model is free until it refuses a call: then a call costs a few additions here and nothing in
Redis. From the first refusal on, calls wait for permits, which each worker leases in bulk for those
that wait, at most every `EXCHANGE_EVERY_S` seconds (app/store/lua/permits.lua says how many there
are). Even a free model is approached gradually: `RAMP_CALLS` at first, twice as many every
`RAMP_DOUBLES_S` seconds, so that an unknown limit refuses few calls.
"""

import asyncio
import heapq
import logging
import math
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import Protocol

from redis.exceptions import RedisError

from app.contract.waiting import OF_KEY, WaitReason
from app.store.rate_limits import PermitExchange, PermitReport, Permits
from app.telemetry import current_span, metrics
from workers.models.port import ModelReply, ModelWaits, NotServed, ReportedLimit


class CallQueue:
    """Futures by tenant; one that is done or discarded is skipped."""

    def __init__(self) -> None:
        self._tenants: dict[str, list[tuple[int, int, asyncio.Future[None]]]] = {}
        self._numbers = count()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def push(self, tenant: str, progress: int, waiting: asyncio.Future[None]) -> None:
        """Add a call; among those with the same progress the first one goes first."""
        calls = self._tenants.setdefault(tenant, [])
        heapq.heappush(calls, (-progress, next(self._numbers), waiting))
        self._length += 1

    def discard(self) -> None:
        """Count one less: a future was cancelled."""
        self._length -= 1

    def pop(self) -> asyncio.Future[None] | None:
        """Return the next call; its tenant goes to the end of the line."""
        while self._tenants:
            tenant = next(iter(self._tenants))
            calls = self._tenants.pop(tenant)
            found = None
            while calls and found is None:
                *_, waiting = heapq.heappop(calls)
                found = None if waiting.done() else waiting
            if calls:
                self._tenants[tenant] = calls
            if found is not None:
                self._length -= 1
                return found
        return None


WAIT_S = 5.0
NOTED_WAIT_S = 0.05
"""Longer waits for a permit are events of the step's span."""
EXCHANGE_EVERY_S = 0.1
LONGEST_EXCHANGE_S = 0.5
RAMP_CALLS, RAMP_DOUBLES_S, RAMP_ENDS_S = 8, 0.25, 2.5
IDLE_S = 60.0
ACCEPTED_S = 1.0
"""A provider that refuses a call because of a limit does so within this time."""
LOW = 0.25
"""A reported limit is heeded once less than this share of it is left."""
WEIGHT = 0.2
LOG_EVERY_S = 1.0
SHOWN_S = 900.0
"""For how long an open breaker is shown without an exchange: a call that waits asks sooner."""
TELL_S = 30.0
"""How long calls may succeed without a report: another worker may have opened the breaker."""
BACKOFF_S, LONGEST_BACKOFF_S = 0.5, 60.0
ALONE = 0.5
"""The share of the last known rate that a worker uses while Redis is away."""
FAILURES, PROBE_ALONE_S = 5, 10.0
"""Failures in a row that open the breaker, and the time between probes, while Redis is away."""
SILENT_S = 2.5
"""Without answers for so long, a worker of another cell uses its share, which is kept for it."""
LINGERS_S = 10.0
"""For how long such a worker keeps its share of a model that it does not call."""
MOST_GATES = 1_000
"""Names that a limiter knows at a time, which clients choose; beyond them it forgets idle ones."""

log = logging.getLogger(__name__)


class QueuedCall(Protocol):
    """What decides when a call gets its permit: see `ModelCall`."""

    @property
    def tenant(self) -> str: ...

    @property
    def progress(self) -> int: ...

    @property
    def has_permit(self) -> bool: ...


@dataclass(slots=True)
class CallUnderWay:
    """A call that was let through: when, in which epoch, and whether its permit was leased."""

    started: float
    epoch: int
    is_accepted: bool


@dataclass(slots=True)
class LastShare:
    """When a worker of another cell may use a limited model without further answers."""

    begins_at: float
    ends_at: float


class ModelGate:
    """What one worker knows of one model.

    With `grace_s` it is a worker of another cell, which goes on for so long without cell 0. A call
    takes `call_s` at most.
    """

    def __init__(
        self,
        name: str,
        keys: tuple[str, str],
        caps: Mapping[str, float] | None = None,
        grace_s: float | None = None,
        call_s: float | None = None,
    ) -> None:
        self.name = name
        self._grace_s = grace_s
        self._call_ms = call_s * 1000 if call_s and grace_s else None
        self._share: LastShare | None = None
        self._reported_at = 0.0
        self.keys = keys
        self.queue = CallQueue()
        self.is_free = False
        self.in_flight = 0
        self.rate = 0.0
        self.workers = 1
        self.paused_until = 0.0
        self.state = Permits(0)
        self.is_urgent = False
        self.wake = asyncio.Event()
        self.lock = asyncio.Lock()
        self._caps = caps
        self.limits_in_flight = "in_flight" in (caps or {})
        self._held = 0.0 if self.limits_in_flight else float("inf")
        self._is_answered = True
        self._epoch = 0
        self._report = PermitReport()
        self._limits: dict[str, Mapping[str, float]] = {}
        self._tokens = (1_000.0, 500.0)
        self._quarter = -1
        self._recent = [0, 0, 0, 0]
        self._ramp_began = 0.0
        self._ramp_given = 0.0
        self._ramp_left = 0.0
        self._unsure: dict[int, CallUnderWay] = {}
        self._level = 0.0
        self._level_at = 0.0
        self._next_parked = 0.0
        self._number = 0
        self._failures = 0
        self._told_at = -TELL_S
        self._logged_at = -LOG_EVERY_S
        self._refusals: Counter[str] = Counter()
        self._refusals_logged_at = -LOG_EVERY_S
        self._logged: tuple[object, ...] = (None, False)

    @property
    def is_idle(self) -> bool:
        """Whether no call waits or is under way."""
        return not self.queue and not self.in_flight

    @property
    def reason(self) -> WaitReason | None:
        """Why the breaker is open; None if it is closed."""
        return self.state.reason

    def enters(self, now: float) -> bool:
        """Let a call through if no limit is known."""
        quarter = int(now * 4)
        if quarter != self._quarter:
            self._turn(quarter, now)
        if not self.is_free or (self._ramp_left < 1 and not self._has_ramp(now)):
            return False
        self._ramp_left -= 1
        self._recent[quarter & 3] += 1
        self.in_flight += 1
        return True

    def begin(self, now: float) -> None:
        """Count a call that has a permit."""
        quarter = int(now * 4)
        if quarter != self._quarter:
            self._turn(quarter, now)
        self._recent[quarter & 3] += 1
        self.in_flight += 1

    def begin_parked(self, now: float) -> None:
        """Count a call whose permit another worker may have taken; how it ends is to be told."""
        self.begin(now)
        self._told_at = -TELL_S

    def spacing_s(self, now: float) -> float:
        """Return how long to wait so that permits taken in bulk are not used all at once."""
        if self.reason:
            return 0.0  # the permit is for a probe
        gap_s = self.workers / self.rate if self.rate else 0.0
        self._next_parked = max(now, self.paused_until, self._next_parked + gap_s)
        return min(self._next_parked - now, WAIT_S)

    def under_way(self, now: float) -> CallUnderWay:
        """Return the record of a call that was let through now."""
        call = CallUnderWay(now, self._epoch, self.is_free)
        if not self.is_free:
            self._unsure[id(call)] = call
        return call

    def return_permit(self) -> None:
        """Give back a permit whose call was not made."""
        self.in_flight -= 1
        self._report.returned += 1

    def give_back(self, permits: int) -> None:
        """Give back permits for which there was no call any more."""
        self._report.returned += max(0, permits)

    def end(self, call: CallUnderWay) -> None:
        """Count the end of a call, without a word on how it ended."""
        self.in_flight -= 1
        self._unsure.pop(id(call), None)

    def answered(self, call: CallUnderWay, reply: ModelReply | None = None) -> None:
        """Count a call that the server answered, if only to reject it for good."""
        self.in_flight -= 1
        if self._unsure:
            self._accept(call)
        self._failures = 0
        self._report.ok += 1
        self._report.answered += 1
        if self.state.blocked or self.state.reason or call.started >= self._told_at + TELL_S:
            self._hurry()
        if reply is None:
            return
        before_in, before_out = self._tokens
        self._tokens = (
            before_in + WEIGHT * (reply.usage.input_tokens - before_in),
            before_out + WEIGHT * (reply.usage.output_tokens - before_out),
        )
        if reply.limits:
            self.hear(reply.limits)

    def refuse(self, call: CallUnderWay, error: NotServed, now: float) -> None:
        """Count a call that was refused or failed; what others must know is urgent."""
        self.end(call)
        self.hear(error.limits)
        report = self._report
        if error.reason == "rate_limited":
            if now - call.started < 1:
                self._recent[int(call.started * 4) & 3] -= 1
            if call.epoch == self._epoch:
                report.refused += 1
                report.retry_after = max(report.retry_after, (error.retry_after_s or -0.001) * 1000)
            self.is_free = False
        elif error.reason in OF_KEY:
            report.key_reason, report.detail = error.reason, error.detail
            self.is_free = False
        elif error.is_outage:
            self._failures += 1
            report.bad, report.ok = report.bad + 1, 0
            report.bad_reason, report.detail = error.reason, error.detail
        else:
            return
        self._hurry()

    def _hurry(self) -> None:
        self.is_urgent = True
        self.wake.set()

    def hear(self, limits: Sequence[ReportedLimit]) -> None:
        """Learn what the server reports of its limits."""
        for limit in limits:
            is_low = limit.remaining <= max(LOW * limit.limit, 2 * self.in_flight)
            if is_low or not self.is_free:
                self._limits[limit.of] = {
                    "limit": limit.limit,
                    "remaining": limit.remaining,
                    "reset": limit.reset_s * 1000,
                }
            if is_low and self.is_free:
                self._hurry()

    def report(self, parked: int, now: float) -> PermitReport:
        """Return what happened since the last report, and start another."""
        for call in [
            unsure for unsure in self._unsure.values() if now - unsure.started >= ACCEPTED_S
        ]:
            self._accept(call)
        self._number += 1
        self._reported_at = now
        in_flight = self.in_flight
        if self.limits_in_flight and not self._is_answered:
            in_flight = max(in_flight, int(self._held))
        report = replace(
            self._report,
            number=self._number,
            wanted=len(self.queue) + parked,
            parked=parked,
            in_flight=in_flight,
            epoch=self._epoch,
            recent=max(0, sum(self._recent)),
            was_free=not self.state.leased,
            input=max(1.0, self._tokens[0]),
            output=max(1.0, self._tokens[1]),
            limits=self._limits or None,
            caps=self._caps,
            away_ms=None if self._grace_s is None else self._grace_s * 1000 * self._is_used(now),
            call_ms=self._call_ms,
        )
        self._report, self._limits, self.is_urgent = PermitReport(), {}, False
        return report

    def hold_calls(self, report: PermitReport, permits: Permits | None) -> None:
        """Note how many calls the others leave to this worker, if their number is limited.

        Without an answer the report may have been received or not: fewer count.
        """
        if self.limits_in_flight:
            self._is_answered = permits is not None
            if permits is None:
                self._held = min(self._held, report.in_flight)
            else:
                self._held = report.in_flight + permits.granted

    def keep_share(
        self, report: PermitReport, permits: Permits, now: float, chance: Callable[[], float]
    ) -> None:
        """Note when the model may be used after this answer, should it be the last one.

        The first call after that comes at a random time: other workers are cut off at the same one.
        """
        if self._grace_s is None:
            return
        self._share = None
        if permits.leased:
            ends_at = self._reported_at + (report.away_ms or 0) / 1000
            self._share = LastShare(now + SILENT_S, ends_at)
            self._level, self._level_at = chance(), now + SILENT_S

    def holds_share(self, now: float) -> bool:
        """Return whether a share is kept for this worker, to be given back if it is not used."""
        return self._share is not None and now < self._share.ends_at

    def _is_used(self, now: float) -> bool:
        """Return whether this worker needs its share of a limited model."""
        return not self.is_idle or now * 4 - self._quarter < LINGERS_S * 4

    def learn(self, permits: Permits, now: float) -> None:
        """Go by the answer to a report."""
        self.state, self._told_at = permits, now
        self._epoch = permits.epoch
        self.rate, self.workers = permits.rate, max(1, permits.workers)
        self.paused_until = now + permits.paused_ms / 1000
        self.is_free = not permits.leased and permits.reason is None
        label = ":".join(metrics.bounded(self.name))
        metrics.BREAKERS.labels(label).set(permits.reason is not None)
        metrics.RATES.labels(label).set(0 if self.is_free else permits.rate)
        self._log(now)

    def show_no_breaker(self) -> None:
        """Let the metric no longer say that the model takes no calls: others may know better."""
        metrics.BREAKERS.labels(":".join(metrics.bounded(self.name))).set(0)

    def _log(self, now: float) -> None:
        """Log what has changed, at most once a second."""
        known = (self.state.reason, self.state.leased)
        if known == self._logged or now - self._logged_at < LOG_EVERY_S:
            return
        if known[0] != self._logged[0]:
            reason = self.state.reason or "closed"  # GET /readyz has what the server said
            log.warning("%s: the breaker is %s", self.name, reason)
        elif self.state.leased:
            log.info("%s: limited to about %.1f calls a second", self.name, self.rate)
        else:
            log.info("%s: no longer limited", self.name)
        self._logged, self._logged_at = known, now

    def log_refusal(self, error: NotServed, now: float) -> None:
        """Log that calls are not served, at most once a second, with how many since."""
        self._refusals[error.reason] += 1
        metrics.NOT_SERVED.labels(metrics.bounded(self.name)[0], error.reason).inc()
        if now - self._refusals_logged_at >= LOG_EVERY_S:
            self._refusals_logged_at = now
            for reason, count in self._refusals.items():
                told = {"model": self.name, "reason": reason, "calls": count}
                log.warning("model calls were not served", extra=told)
            self._refusals.clear()

    def alone(self, report: PermitReport, now: float) -> Permits:
        """Answer a report while Redis is away: with less than was allowed before."""
        reason = report.key_reason or (report.bad_reason if self._failures >= FAILURES else None)
        if reason or (self.reason and not report.ok):
            return self._probing_alone(report, reason, now)
        if report.refused:
            known = self.rate if self.rate and not self.is_free else float(max(report.recent, 1))
            self.rate = max(0.1, ALONE * known)
        most = report.wanted
        if self._share is not None:
            begins_at = max(self._share.begins_at, self._next_parked)
            if not begins_at <= now < self._share.ends_at:
                return self._without_share(begins_at - now)
        most = int(max(0, min(most, self._held - self.in_flight)))
        if not self.rate:
            granted = min(most, report.wanted - report.parked)
            is_leased = self._share is not None or self.limits_in_flight
            return Permits(granted, most - granted, leased=is_leased)
        share = ALONE * self.rate / self.workers
        self._level = min(max(1.0, share), self._level + (now - self._level_at) * share)
        self._level_at = now
        paused_ms = max(report.retry_after, 0.0)
        if self.reason is None:
            paused_ms = max(paused_ms, (self.paused_until - now) * 1000)
        allowed = 0 if paused_ms else min(most, int(self._level))
        self._level -= allowed
        granted = min(allowed, report.wanted - report.parked)
        state = Permits(granted, allowed - granted, leased=True, epoch=self._epoch)
        return replace(state, rate=self.rate, workers=self.workers, paused_ms=paused_ms)

    def _without_share(self, begins_in_s: float) -> Permits:
        """Answer that no call is made until the share begins, or not soon if it has ended."""
        left_s = begins_in_s if begins_in_s > 0 else 2 * WAIT_S
        return replace(self.state, granted=0, parked=0, paused_ms=left_s * 1000)

    def _probing_alone(
        self, report: PermitReport, reason: WaitReason | None, now: float
    ) -> Permits:
        """Let one call through every `PROBE_ALONE_S` seconds."""
        state = replace(self.state, granted=0, parked=0)
        if reason:
            state = replace(state, reason=reason, detail=report.detail)
        is_probe = reason is None and report.wanted > 0 and now >= self.paused_until
        is_probe = is_probe and self.in_flight < self._held
        is_parked = is_probe and report.wanted == report.parked
        left_s = PROBE_ALONE_S if is_probe or reason else max(0.0, self.paused_until - now)
        return replace(
            state,
            granted=int(is_probe and not is_parked),
            parked=int(is_parked),
            paused_ms=left_s * 1000,
        )

    def expected_wait_s(self, now: float, ahead: int) -> float:
        """Return in how many seconds a call gets its permit with so many ahead of it."""
        wait_s = max(0.0, self.paused_until - now)
        if self.reason is None and self.rate:
            wait_s += (ahead + 1) * self.workers / self.rate
        return wait_s

    def waits(self, now: float, *, in_line: bool = False) -> ModelWaits:
        """Return the error for a call that gets no permit now.

        One that has waited `in_line` comes back sooner, so that the line does not run empty; not if
        the rate is unknown, as with a cap on calls in flight: it would stay in line for ever.
        """
        reason = self.reason
        wait_s = self.expected_wait_s(now, len(self.queue))
        if in_line:
            wait_s = wait_s / 2 if self.rate else max(wait_s, WAIT_S)
        words = self.state.detail if reason else "calls are made at the rate that it takes"
        return ModelWaits(
            self.name, reason or "rate_limited", wait_s, words, is_open=reason is not None
        )

    def interval_s(self, now: float) -> float:
        """Return the seconds until the next exchange."""
        if not self.queue and not self.is_urgent:
            return LONGEST_EXCHANGE_S
        if self.is_free:
            return RAMP_DOUBLES_S / 8
        wait_s = max(self.paused_until - now, self.workers / self.rate / 2 if self.rate else 0.0)
        return min(LONGEST_EXCHANGE_S, max(EXCHANGE_EVERY_S, wait_s))

    @property
    def has_news(self) -> bool:
        """Whether there is something to exchange."""
        if self.limits_in_flight:
            is_counted = self._held > 0
        else:
            is_counted = not self.is_free and bool(self.in_flight) and self.reason is None
        return bool(self.queue) or self.is_urgent or is_counted

    def _accept(self, call: CallUnderWay) -> None:
        if self._unsure.pop(id(call), None) and call.epoch == self._epoch:
            self._report.accepted += 1

    def _turn(self, quarter: int, now: float) -> None:
        idle = quarter - self._quarter
        for passed in range(1, min(idle, 4) + 1):
            self._recent[(self._quarter + passed) & 3] = 0
        if idle > IDLE_S * 4 and not self.in_flight:
            self._ramp_began, self._ramp_given, self._ramp_left = now, 0.0, 0.0
            self.is_free = False  # others may have met a limit since
        self._quarter = quarter

    def _has_ramp(self, now: float) -> bool:
        """Allow twice as many calls in all for every `RAMP_DOUBLES_S` that have passed."""
        passed_s = now - self._ramp_began
        if passed_s >= RAMP_ENDS_S:
            self._ramp_left = float("inf")
        else:
            allowed = RAMP_CALLS * math.exp2(passed_s / RAMP_DOUBLES_S)
            self._ramp_left += allowed - self._ramp_given
            self._ramp_given = allowed
        return self._ramp_left >= 1


class RateLimiter:
    """The gates of one worker, and their exchange with the gates of other workers.

    Without an `exchange` it goes by what this worker sees. With `grace_s` the exchange is in cell
    0, and this worker is of another one.
    """

    def __init__(
        self,
        exchange: PermitExchange | None = None,
        chance: Callable[[], float] = random.random,
        grace_s: float | None = None,
        call_s: float | None = None,
    ) -> None:
        self._exchange = exchange
        self._grace_s = grace_s
        self._call_s = call_s
        self._chance = chance
        self._is_shared = True
        self._gates: dict[str, ModelGate] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def gate(
        self,
        name: str,
        fingerprint: str,
        caps: Mapping[str, float] | None = None,
        *,
        known_as: str | None = None,
    ) -> ModelGate:
        """Return the gate of `provider:name`; `fingerprint` tells keys and servers apart.

        With `known_as` it is one of several for that model, each with a key of its own. Use it at
        once: the gate that was not asked for the longest may be forgotten while it is idle.
        """
        at = name if known_as is None else f"{known_as}@{fingerprint}"
        gate = self._gates.pop(at, None)
        if gate is None:
            if len(self._gates) >= MOST_GATES:
                self._forget_one()
            provider = name.partition(":")[0]
            caps = caps if self._exchange else None
            keys = (f"{name}@{fingerprint}", f"{provider}@{fingerprint}")
            gate = ModelGate(known_as or name, keys, caps, self._grace_s, self._call_s)
            self._tasks[at] = asyncio.get_running_loop().create_task(self._serve(gate))
        self._gates[at] = gate  # the last one used goes last
        return gate

    def _forget_one(self) -> None:
        for at, gate in self._gates.items():
            if gate.is_idle:
                del self._gates[at]
                self._tasks.pop(at).cancel()
                return

    async def aclose(self) -> None:
        """End the exchange."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def enter(self, gate: ModelGate, call: QueuedCall) -> CallUnderWay:
        """Return when the call may be made. Raises ModelWaits if that takes more than `WAIT_S`.

        If calls in flight are limited, the permit of a parked refinement lets it ask: only an
        exchange of this worker counts its call from when it begins.
        """
        clock = asyncio.get_running_loop().time
        now = clock()
        if call.has_permit and not gate.limits_in_flight:
            gate.begin_parked(now)
            await self._space_out(gate, now)
        elif gate.enters(now):
            return gate.under_way(now)
        else:
            await self._wait(gate, call, now)
        if (wait_s := clock() - now) > NOTED_WAIT_S:
            current_span().event("waited for a permit", {"hone.wait_s": round(wait_s, 3)})
        return gate.under_way(now + wait_s)

    def refused(
        self, gate: ModelGate, under_way: CallUnderWay, error: NotServed, tries: int
    ) -> ModelWaits:
        """Count a call that was not served; return when to make it again.

        The backoff is random below a bound that doubles with every try ("full jitter": AWS
        Architecture Blog, Exponential Backoff And Jitter), and never less than the server asks for.
        """
        now = asyncio.get_running_loop().time()
        gate.refuse(under_way, error, now)
        gate.log_refusal(error, now)
        wait_s = self._chance() * min(BACKOFF_S * 2.0 ** min(tries, 30), LONGEST_BACKOFF_S)
        if gate.reason or error.reason == "rate_limited":
            wait_s = max(wait_s, gate.expected_wait_s(now, len(gate.queue)))
        elif error.reason in OF_KEY:
            wait_s += 1.0
        wait_s = max(wait_s, error.retry_after_s or 0.0)
        return ModelWaits(
            gate.name,
            error.reason,
            wait_s,
            error.detail,
            is_open=error.reason in OF_KEY or gate.reason is not None,
            usage=error.usage,
        )

    async def permits(self, gate: ModelGate, most: int) -> int:
        """Take up to `most` permits for calls that are made later, with `has_permit`."""
        now = asyncio.get_running_loop().time()
        if gate.enters(now):
            taken = 1
            while taken < most and gate.enters(now):
                taken += 1
            gate.in_flight -= taken
            return taken
        return await self._trade(gate, most)

    @staticmethod
    async def _space_out(gate: ModelGate, now: float) -> None:
        try:
            await asyncio.sleep(gate.spacing_s(now))
        except asyncio.CancelledError:
            gate.return_permit()
            raise

    async def _wait(self, gate: ModelGate, call: QueuedCall, now: float) -> None:
        if call.has_permit:
            gate.give_back(1)
        elif gate.expected_wait_s(now, len(gate.queue)) > WAIT_S or (
            gate.reason and now < gate.paused_until
        ):
            raise gate.waits(now)
        waiting = asyncio.get_running_loop().create_future()
        gate.queue.push(call.tenant, call.progress, waiting)
        gate.wake.set()
        try:
            async with asyncio.timeout(WAIT_S):
                await waiting
        except TimeoutError:
            self._withdraw(gate, waiting)
            raise gate.waits(asyncio.get_running_loop().time(), in_line=True) from None
        except asyncio.CancelledError:
            self._withdraw(gate, waiting)
            raise

    @staticmethod
    def _withdraw(gate: ModelGate, waiting: asyncio.Future[None]) -> None:
        if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
            gate.return_permit()
        elif not waiting.done() or waiting.cancelled():
            waiting.cancel()
            gate.queue.discard()

    async def _serve(self, gate: ModelGate) -> None:
        """Exchange while there is something to exchange."""
        loop = asyncio.get_running_loop()
        while True:
            if gate.reason and not gate.wake.is_set():
                await self._sleep(gate, SHOWN_S)
                if not gate.wake.is_set():
                    gate.show_no_breaker()
            await gate.wake.wait()
            gate.wake.clear()
            while gate.has_news or gate.holds_share(loop.time()):
                now = loop.time()
                if not gate.is_free or gate.is_urgent:
                    await self._trade(gate, 0)
                self._let_in(gate, loop.time())
                pause_s = gate.interval_s(now) * (0.8 + 0.4 * self._chance())
                await asyncio.sleep(min(pause_s, EXCHANGE_EVERY_S))
                if pause_s > EXCHANGE_EVERY_S and not gate.is_urgent:
                    await self._sleep(gate, pause_s - EXCHANGE_EVERY_S)

    @staticmethod
    async def _sleep(gate: ModelGate, seconds: float) -> None:
        gate.wake.clear()
        try:
            async with asyncio.timeout(seconds):
                await gate.wake.wait()
        except TimeoutError:
            pass

    async def _trade(self, gate: ModelGate, parked: int) -> int:
        """Exchange a report for permits; return how many are for parked refinements."""
        loop = asyncio.get_running_loop()
        async with gate.lock:
            report = gate.report(parked, loop.time())
            permits = await self._answer(gate, report)
            now = loop.time()
            gate.hold_calls(report, permits)
            if permits is not None:
                gate.keep_share(report, permits, now, self._chance)
            gate.learn(permits or gate.alone(report, now), now)
            self._tell_others(gate)
            if gate.is_free:
                self._let_in(gate, now)
                return parked
            here = gate.state.granted
            while here and (waiting := gate.queue.pop()):
                gate.begin(now)
                waiting.set_result(None)
                here -= 1
            gate.give_back(here)
            while gate.reason and (waiting := gate.queue.pop()):
                waiting.set_exception(gate.waits(now))
            return gate.state.parked

    async def _answer(self, gate: ModelGate, report: PermitReport) -> Permits | None:
        """Return the answer of the exchange, None while Redis is away."""
        if self._exchange is None:
            return None
        try:
            permits = await self._exchange.exchange(*gate.keys, report)
        except (RedisError, OSError, TimeoutError) as error:
            if self._is_shared:
                log.warning("limits are not shared until Redis is back: %s", error)
            self._is_shared = False
            return None
        self._is_shared = True
        return permits

    def _tell_others(self, gate: ModelGate) -> None:
        """Let the other models of a provider know that its breaker is open."""
        if not gate.state.of_provider:
            return
        for other in self._gates.values():
            if other is not gate and other.keys[1] == gate.keys[1]:
                other.is_free, other.state = False, replace(gate.state, granted=0)
                other.paused_until = gate.paused_until

    @staticmethod
    def _let_in(gate: ModelGate, now: float) -> None:
        while gate.is_free and gate.queue and gate.enters(now):
            if (waiting := gate.queue.pop()) is None:
                gate.in_flight -= 1
                break
            waiting.set_result(None)


@asynccontextmanager
async def open_rate_limiter(
    exchange: PermitExchange | None, grace_s: float | None = None
) -> AsyncIterator[RateLimiter]:
    """Open a limiter for as long as the context lasts."""
    limiter = RateLimiter(exchange, grace_s=grace_s)
    try:
        yield limiter
    finally:
        await limiter.aclose()
