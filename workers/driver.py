"""Plays a strategy against models and journal: replay, cancel, budget, endings.

The rules it keeps:

1. A step with a recorded reply is never performed again; the strategy is given its reply.
2. A reply is durable before the next call starts.
3. Once stopping is journaled, or the refinement is canceling, no model call starts and those in
   flight are aborted; checks and news still work, so that what is there can be judged.
4. Of calls side by side those that the budget does not allow beside the others are refused, each
   under its own key, and so is what only prepares a draft, when a finish or the budget wants the
   draft now; the others go on.
5. A review gives the claim up, together with everything to be journaled; what ends anyway is not
   reviewed. The reviewer's word is replayed by another claim.
6. News is answered with the limits in force; limits replaced meanwhile mean: replay from there.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from app.contract.events import StepCompleted, StepFailed
from app.contract.limits import Limits
from app.contract.status import Status, StopReason
from app.store import Fenced, Journal, StaleLimits, State, Submitted
from workers import endings
from workers.deadline import Deadline
from workers.endings import Canceled, Ending, Leaving, Waiting
from workers.engine import moves
from workers.engine.moves import Ask, Call, Check, Judged, Move, Play, Review, Stop, Together
from workers.engine.search import Outcome
from workers.in_flight import InFlight
from workers.pen import Judging, Pen
from workers.performing import Performer
from workers.purse import Purse
from workers.recorded import Recorded, Step, refused, spared

log = logging.getLogger(__name__)

REFUSALS = (Stop, moves.StepFailed)


class Driver:
    """Plays one claimed refinement to its end; `strategy` gives a fresh play for every replay."""

    def __init__(
        self,
        strategy: Callable[[], Play[Outcome]],
        submitted: Submitted,
        recorded: Recorded,
        performer: Performer,
        journal: Journal,
        state: State,
        elapsed_s: float,
    ) -> None:
        self._strategy = strategy
        self._recorded = recorded
        self._journal = journal
        self._pen = Pen(journal, recorded, state)
        self._plan = submitted.request.review
        self._purse = Purse(submitted.request, submitted.models)
        self._deadline = Deadline(elapsed_s)
        self._in_flight = InFlight(performer)
        self._is_leaving = False
        self.is_pausing = False  # whether another claim may have it already

    async def play(self) -> None:
        """Play until the refinement has ended.

        Raises `Waiting` when a reviewer was asked, `Leaving` after `leave`, and `Fenced` when it is
        no longer this worker's. When cancelled, what is journaled stands and the rest is performed
        by another claim.
        """
        self._heed(self._pen.state)
        try:
            while True:
                try:
                    await self._pen.write(await self._ending())
                except StaleLimits as stale:
                    self._pen.start_over(stale.state)
                else:
                    return
        finally:
            self._deadline.close()

    async def look(self) -> None:
        """Heed a command: cancel and finish abort the calls in flight."""
        state = await self._journal.look()
        if state.last_event >= self._pen.state.last_event:
            self._pen.state = state
            self._heed(state)

    def leave(self) -> None:
        """Let the calls in flight answer, and start no other."""
        self._is_leaving = True

    async def _ending(self) -> Ending:
        try:
            outcome = await self._play(self._strategy())
            return endings.succeeded(outcome, self._recorded.stopping)
        except Canceled:
            return endings.canceled()
        except Stop:
            return endings.nothing_judged(self._recorded.stopping)
        except moves.StepFailed as failure:
            return endings.failed(failure.code, failure.detail)
        except (Leaving, Waiting, Fenced, StaleLimits):
            raise
        except Exception:
            log.exception("%s: the strategy could not be played", self._journal.id)
            return endings.failed("internal_error", "an error in this server; its log says more")

    async def _play(self, part: Play[Any]) -> Any:
        """Play a strategy, or a part of one, and return what it returned."""
        answer: Any = part.send
        value: Any = None
        try:
            while True:
                move = answer(value)
                try:
                    answer, value = part.send, await self._reply(move)
                except REFUSALS as refusal:
                    answer, value = part.throw, refusal
        except StopIteration as done:
            return done.value
        finally:
            part.close()

    def _reply(self, move: Move[Any]) -> Awaitable[Any]:
        match move:
            case Ask() | Check() | Call():
                return self._step(move)
            case Judged():
                return self._judged(move)
            case Review():
                return self._review(move)
            case Together():
                return self._together(move)
        raise TypeError(f"nobody plays {type(move).__name__}")

    async def _together(self, move: Together) -> tuple[Any, ...]:
        """Play every part to its end; what forbids one of them goes on to the whole."""
        done = await asyncio.gather(*map(self._play_part, move.parts), return_exceptions=True)
        errors = [it for it in done if isinstance(it, BaseException)]
        for error in sorted(errors, key=lambda it: isinstance(it, REFUSALS)):
            raise error
        return tuple(done)

    async def _play_part(self, part: Play[Any]) -> Any:
        """Play a part; its last reply is durable however long the other parts take."""
        try:
            return await self._play(part)
        except REFUSALS as refusal:
            return refusal
        finally:
            self._heed(await self._pen.write())

    async def _judged(self, move: Judged) -> Limits:
        recorded = self._recorded.limits.get((move.path, move.judgement.scored.score_from))
        if recorded is not None:
            return recorded
        state = self._pen.state
        self._pen.add(Judging.of(move, state.limits, state.limits_seq))
        return state.limits

    async def _review(self, move: Review) -> moves.Word:
        word = self._recorded.words.get(move.path)
        if word is not None:
            return replace(word, limits=self._pen.state.limits)
        self._admit(move)
        assert self._plan is not None  # else nobody asks
        self.is_pausing = True
        state = await self._pen.write(endings.paused(move, self._plan))
        if state.status not in (Status.RUNNING, Status.CANCELING):
            raise Waiting
        self.is_pausing = False
        self._heed(state)
        self._admit(move)
        raise Stop  # what does not pause ends without a word

    async def _step(self, move: moves.Deed) -> Any:
        step = self._recorded.steps.get(move.path)
        if step is None:
            step = Step(await self._perform(move))
            self._recorded.add(step)
        if not step.is_journaled:
            self._pen.add(step)
        return step.reply()

    async def _perform(self, move: moves.Deed) -> StepCompleted | StepFailed:
        limits, spent = self._pen.state.limits, self._recorded.usage
        if isinstance(move, Ask) and not self._purse.reserve(move, spent, limits):
            if move.prepares or self._purse.waits_for_others(move):
                return refused(move.path)
            self._pen.stop(StopReason.BUDGET_EXHAUSTED)
        self._admit(move)
        self._pen.under_way[move.path] = None
        try:
            self._heed(await self._pen.write())
            if self._is_leaving:
                raise Leaving
            self._admit(move)
            if self._is_spared(move):
                return spared(move.path)
            done = await self._in_flight.perform(move)
            if done is None:
                self._admit(move)
            return done or spared(move.path)
        finally:
            self._pen.under_way.pop(move.path, None)
            self._purse.settle(move.path)

    def _admit(self, move: moves.Deed | Review) -> None:
        """Raise what forbids a step to start."""
        if self._pen.state.status is Status.CANCELING:
            raise Canceled
        if self._recorded.stopping and not isinstance(move, Check):
            raise Stop

    def _heed(self, state: State) -> None:
        """Act on what the API has decided meanwhile."""
        self._recorded.stopping = self._recorded.stopping or state.stopping
        if state.finish_requested and self._recorded.best:
            self._pen.stop(StopReason.FINISHED_EARLY)
        self._deadline.set(state.limits.max_seconds, self._overdue)
        self._abort()

    def _overdue(self) -> None:
        self._pen.stop(StopReason.DEADLINE)
        self._abort()

    def _abort(self) -> None:
        canceling = self._pen.state.status is Status.CANCELING
        stopping = self._recorded.stopping is not None

        def is_refused(move: moves.Deed) -> bool:
            is_stopped = stopping and not isinstance(move, Check)
            return canceling or is_stopped or self._is_spared(move)

        self._in_flight.abort(is_refused)

    def _is_spared(self, move: moves.Deed) -> bool:
        """Return whether a finish that waits for the first draft does without a step."""
        return self._pen.state.finish_requested and not self._recorded.best and move.prepares
