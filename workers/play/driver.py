"""Plays a strategy: replies come from the journal or from the executor, within the limits."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from app.contract.budget import DEFAULT_MAX_OUTPUT_TOKENS
from app.contract.drafts import is_long
from app.contract.events import StepCompleted, StepFailed
from app.contract.judgement import Usage
from app.contract.limits import Limits, TimeLimit
from app.contract.requests import RefinementRequest
from app.contract.status import Status, StopReason
from app.contract.versions import ENGINE_VERSION
from app.contract.waiting import Waiting
from app.store import Addition, Claimed, Fenced, Journal, StaleLimits, State, Submitted
from app.store.prompts import PromptKeeper, known_texts
from app.telemetry import current_span, metrics
from workers.engine import moves
from workers.engine.moves import (
    Approval,
    Ask,
    Call,
    Check,
    Heard,
    Judged,
    Move,
    MoveCoroutine,
    Refusal,
    Review,
    StepMove,
    Stopped,
    Together,
    about,
)
from workers.engine.search import Outcome
from workers.play.executor import (
    StepExecutor,
    StepWaits,
    describe_ending,
    describe_entry,
    step_span,
)
from workers.play.journal import (
    INTERNAL,
    Ending,
    JournalUnwritable,
    JournalWriter,
    JudgedDraft,
    RecordedStep,
    Replay,
    Unencodable,
    interrupted,
    learning_kind,
    outcome_additions,
    overlong,
    refused_entry,
    spared,
    unasked,
    unwaited,
)
from workers.play.limits import BranchWaits, BudgetGuard, EveryBranchWaits, TimeLimits


class Canceled(Exception):
    """A cancel was accepted: the strategy is closed at once."""


class AwaitingReview(Exception):
    """Reviewers are asked: this claim ends, and a new claim continues after the review."""

    def __init__(self, *moves: Review | Approval) -> None:
        super().__init__(*(move.path for move in moves))
        self.moves = moves


class PauseRequested(Exception):
    """A client has paused it: this claim ends before the next step."""


class WorkerLeaving(Exception):
    """This worker is shutting down: another worker performs the next step."""


class InFlight:
    """Performs steps, each in a task of its own."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[StepCompleted | StepFailed], StepMove] = {}

    async def perform(
        self, move: StepMove, performing: Coroutine[Any, Any, StepCompleted | StepFailed]
    ) -> StepCompleted | StepFailed | None:
        """Return the journal entry of a step, or None when the step was aborted."""
        task = asyncio.get_running_loop().create_task(_without_exits(performing))
        self._tasks[task] = move
        try:
            return await task
        except asyncio.CancelledError as error:
            me = asyncio.current_task()
            if me is not None and me.cancelling():
                raise
            if not task.cancelling():
                raise RuntimeError(f"the step {move.path} raised {error!r}") from error
            return None
        finally:
            del self._tasks[task]

    def abort(self, is_refused: Callable[[StepMove], bool]) -> None:
        """Abort every step in flight that is refused now."""
        for task, move in self._tasks.items():
            if is_refused(move):
                task.cancel()


async def _without_exits(
    performing: Coroutine[Any, Any, StepCompleted | StepFailed],
) -> StepCompleted | StepFailed:
    """Perform a step; what would end the event loop is an error of the step."""
    try:
        return await performing
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:
        raise RuntimeError(f"a step raised {error!r}") from error


log = logging.getLogger(__name__)

SEE_LOG = "internal error: see the log of the worker"


async def play_moves(
    part: MoveCoroutine[Any], reply_to: Callable[[Move[Any]], Awaitable[Any]]
) -> Any:
    """Answer every move of a strategy, or of a part of one, and return what it returned.

    A refusal that `reply_to` raises is thrown into the strategy. An exit or a cancellation that the
    strategy raises itself is an error: it would end the worker, or pass for a cancelled task.
    """
    answer: Any = part.send
    value: Any = None
    try:
        while True:
            try:
                move = answer(value)
            except Exception:
                raise
            except BaseException as error:
                raise RuntimeError(f"the strategy raised {error!r}") from error
            try:
                answer, value = part.send, await reply_to(move)
            except Refusal as refusal:
                answer, value = part.throw, refusal
    except StopIteration as done:
        return done.value
    finally:
        _close(part)


def _close(part: MoveCoroutine[Any]) -> None:
    """Close a strategy; an error that it raises then does not replace the reason to close it."""
    try:
        part.close()
    except BaseException:
        log.exception("the strategy raised an error while it was closed")


def results_of_parts(done: Sequence[Any]) -> tuple[Any, ...]:
    """Return what parts side by side returned; raise the error that stops the whole, if any.

    Reviews wait for everything else; then the driver asks for all of them together.
    """
    errors = [
        result
        for result in done
        if isinstance(result, BaseException) and not isinstance(result, Refusal)
    ]
    reviews = [error for error in errors if isinstance(error, AwaitingReview)]
    if len(reviews) < len(errors):
        raise next(error for error in errors if not isinstance(error, AwaitingReview))
    if reviews:
        raise AwaitingReview(*(move for review in reviews for move in review.moves))
    if refusals := [result for result in done if isinstance(result, Refusal)]:
        raise moves.first_of(refusals)
    return tuple(done)


class Incompatible(Exception):
    """A strategy asks for something else than the journal says that it asked for."""


def _use(path: str, used: set[str]) -> None:
    """Raise ValueError if a strategy has used a path before: one recorded reply would be given to
    two steps."""
    if path in used:
        raise ValueError(f"the path {path!r} is used twice: put the parts under `within`")
    used.add(path)


class _Unrecorded(Exception):
    """A part has reached a move without a recorded reply."""


class Rehearsal:
    """Plays a strategy on its recorded replies alone, and performs nothing.

    A part ends at its first move without a reply; after a stop such a move is refused, as the
    driver refuses it. Every journaled step must be asked for, about what it was about then: else
    this code would not go on from the journal, but beside it.
    """

    def __init__(self, recorded: Replay) -> None:
        self._recorded = recorded
        self._used = set[str]()
        self._unasked = {key: None for key, step in recorded.steps.items() if step.is_journaled}
        self._heard: dict[str, Heard] = {}
        """Where each search asked last what was said, by its scope."""
        self._last: set[str] = set()
        """Paths of unanswered questions; nothing recorded was asked for since in their branch."""

    async def play(self, strategy: MoveCoroutine[Any]) -> None:
        """Raise `Incompatible`, which names a step, unless the strategy goes on from the journal.

        It never waits.
        """
        with suppress(_Unrecorded, Refusal):
            await play_moves(strategy, self._reply)
        for key in self._unasked:
            raise Incompatible(f"the step {key} is recorded and not asked for")

    def place(self, best: str | None, request: RefinementRequest) -> str | None:
        """Return the path at which the strategy will read a reply that a reviewer gives now.

        The reply is about the draft at `best`, so the search of this draft reads it. None if that
        search has ended, or if its drafts are reviewed anyway; without a draft, None if a stage,
        pass or part makes the first one.
        """
        scope = "" if best is None else best.rpartition("iterations/")[0]
        last = self._heard.get(scope)
        if last is None and best is None and not _is_reviewed(request):
            return _first_place(request)
        if last is not None and last.path in self._last:
            return last.path
        return None if last is None or last.is_over else f"{scope}iterations/{last.upcoming}/said"

    async def _reply(self, move: Move[Any]) -> Any:
        match move:
            case Ask() | Check() | Call():
                return self._step(move)
            case Heard():
                return self._word(move)
            case Judged():
                reply = self._recorded.limits.get((move.path, move.judgement.scored.score_from))
                return self._recorded_reply(move, reply)
            case Review() | Approval():
                return self._decision(move)
            case Together():
                return await self._together(move)
        raise TypeError(f"unknown move {type(move).__name__}")

    def _decision(self, move: Review | Approval) -> Any:
        self._last.clear()  # it was about what is known here
        if isinstance(move, Approval):
            if self._recorded.shown.get(move.path, move.call) != move.call:
                raise Incompatible(f"at {move.path} a reviewer was shown another call")
            if (step := self._recorded.steps.get(move.path)) is not None:
                self._unasked.pop(move.path, None)
                return step.reply()
        return self._recorded_reply(move, self._recorded.reviewer_replies.get(move.path))

    def _word(self, move: Heard) -> moves.ReviewerReply | None:
        reply = self._recorded.reviewer_replies.get(move.path)
        self._last.discard(move.path)
        if reply is None:
            self._last.add(move.path)
        self._heard[move.scope] = move if reply is None else move.changed(is_over=False)
        return reply

    async def _together(self, move: Together) -> tuple[Any, ...]:
        """Play every part; what one of them asks for says nothing about the others."""
        before, done, last = self._last, [], set[str]()
        for part in move.parts:
            self._last = set(before)
            done.append(await self._part(part))
            last |= self._last - before
            before = before & self._last
        self._last = last | before
        return results_of_parts(done)

    async def _part(self, part: MoveCoroutine[Any]) -> Any:
        try:
            return await play_moves(part, self._reply)
        except (_Unrecorded, Refusal) as error:
            return error

    def _step(self, move: StepMove) -> Any:
        _use(move.path, self._used)
        step = self._recorded_reply(move, self._recorded.steps.get(move.path))
        if step.entry.about is not None and step.entry.about != about(move):
            raise Incompatible(f"the step {move.path} is recorded as about something else")
        self._unasked.pop(move.path, None)
        self._last.clear()
        return step.reply()

    def _recorded_reply(self, move: Move[Any], reply: Any) -> Any:
        if reply is None:
            is_refused = self._recorded.stopping and not isinstance(move, Check | Judged)
            raise Stopped if is_refused else _Unrecorded
        return reply


def _is_reviewed(request: RefinementRequest) -> bool:
    return request.review is not None and request.review.when == "each_iteration"


def _first_place(request: RefinementRequest) -> str | None:
    """Return the path at which the strategy reads a reply that precedes its first call."""
    if request.draft is not None and request.feedback is None:  # which is judged first
        return None if is_long(request.draft) else "iterations/0/said"
    return None if request.strategy.inner() else "iterations/1/given"


class Driver:
    """Plays one claimed refinement to its end.

    `strategy` returns a fresh coroutine for every replay. With `leaves_after_step` it plays until a
    step was performed, then as after `leave`.
    """

    def __init__(
        self,
        strategy: Callable[[], MoveCoroutine[Outcome]],
        submitted: Submitted,
        recorded: Replay,
        executor: StepExecutor,
        journal: Journal,
        claimed: Claimed,
        *,
        leaves_after_step: bool = False,
        max_output_tokens: int = DEFAULT_MAX_OUTPUT_TOKENS,
        keeps_prompts: bool = True,
    ) -> None:
        self._strategy = strategy
        self._replay = recorded
        self._journal = journal
        self._time = TimeLimits(claimed)
        keeper = (
            PromptKeeper(submitted.prompt_nonce, known_texts(submitted.request))
            if keeps_prompts
            else None
        )
        self._writer = JournalWriter(
            journal,
            recorded,
            claimed.state,
            self._time.waited_s,
            prompts=keeper,
            learning=submitted.request if submitted.request.learn else None,
            drawn=_drawn_in(submitted),
        )
        self._request, self._plan = submitted.request, submitted.request.review
        self._models = submitted.models
        self._budget_guard = BudgetGuard(submitted.request, submitted.models, max_output_tokens)
        self._executor = executor
        self._in_flight = InFlight()
        self._waits = BranchWaits()
        self._is_leaving = False
        self._is_rehearsed = False
        self._used = set[str]()
        self._are_checks_over = False
        self._engine_version = submitted.engine_version
        self._tenant, self._kind = claimed.tenant, learning_kind(submitted)
        self._leaves_after_step = leaves_after_step

        self.ends_claim = False
        """Whether the append that pauses, parks or ends the refinement is under way.

        After a review or a retry another claim may exist already.
        """

    async def play(self) -> None:
        """Play until the refinement has ended, or is parked because every branch waits.

        After a request for a review it is paused. Raises `WorkerLeaving` after `leave`, and
        `Fenced` when this worker's fencing token is outdated. When cancelled, journaled steps stay
        and another claim performs the rest.
        """
        try:
            while True:
                try:
                    if await self._has_ended(await self._ending()):
                        return
                except StaleLimits as stale:
                    self._writer.state = stale.state
                except Unencodable:
                    log.exception("%s: what it would journal is not Unicode", self._journal.id)
                    steps = self._writer.fail_unencodable()
                    await self._has_ended(Ending.failed(INTERNAL, SEE_LOG, steps))
                    return
                self.ends_claim = False
                self._writer.start_over(self._writer.state)
        finally:
            self._time.close()

    async def _has_ended(self, ending: Ending) -> bool:
        """Write how the claim ends; return False if it must go on under another state."""
        self.ends_claim = True
        state = await self._writer.write(ending)
        self._log(ending.under(state.status))
        held = state.status in (Status.RUNNING, Status.CANCELING)
        goes_on = ending.status is Status.PAUSED and held
        return not goes_on and (ending.parking is None or state.is_parked)

    def _log(self, ending: Ending) -> None:
        """Log an ending, a pause, or what it waits for without a worker."""
        spent, about = self._replay.spent, {"refinement": self._journal.id, "tenant": self._tenant}
        if ending.parking is not None:
            metrics.WAITS.inc()
            log.info("refinement waits", extra={**about, "models": ending.parking.awaited})
            current_span().set({"hone.status": "parked"})
            return
        result, reason = ending.changes.get("result"), ending.changes.get("stop_reason")
        error = ending.changes.get("error")
        if ending.status is not Status.PAUSED:
            kind = self._request.strategy.kind
            metrics.ENDED.labels(str(ending.outcome), str(reason or ""), kind).inc()
        if ending.status is Status.SUCCEEDED:
            age_s = metrics.since(self._journal.id, self._time.time_in(0))
            metrics.RESULT.observe(age_s)
        facts = {
            "status": str(ending.status),
            "outcome": None if ending.outcome is None else str(ending.outcome),
            "stop_reason": None if reason is None else str(reason),
            "error": None if error is None else error.code,
            "strategy": self._request.strategy.kind,
            "score": None if result is None else result.score,
            "caveats": sorted({caveat.code for caveat in result.caveats}) if result else None,
            "iterations": len(self._replay.iterations),
            "calls": spent.calls,
            "tokens": spent.input_tokens + spent.output_tokens,
            "cost_usd": spent.cost_usd,
            "seconds": round(spent.seconds, 3),
        }
        log.log(
            logging.WARNING if ending.status is Status.FAILED else logging.INFO,
            "refinement paused" if ending.status is Status.PAUSED else "refinement ended",
            extra={**about, **facts},
        )
        describe_ending(current_span(), facts)

    async def look(self) -> None:
        """Read and apply commands: cancel and finish abort the calls in flight."""
        state = await self._journal.look()
        if state.last_event >= self._writer.state.last_event:
            self._writer.state = state
            self._heed(state)

    def leave(self) -> None:
        """Let the calls in flight finish, and start no others."""
        self._is_leaving = True
        self._waits.interrupt()

    async def _ending(self) -> Ending:
        """Play until the claim ends, and return how."""
        self._waits, self._used = BranchWaits(), set()
        self._heed(self._writer.state)
        try:
            await self._rehearse()
            outcome = await play_moves(self._strategy(), self._reply)
            limits = self._writer.state.limits
            outcome = outcome.decided_under(limits).claiming(frozenset(self._request.accept))
            added = self._additions(outcome)
            return Ending.succeeded(outcome, self._replay, self._request, limits.threshold, added)
        except Canceled:
            return Ending.canceled()
        except Refusal as refusal:
            return await self._after(refusal)
        except Incompatible as found:
            return Ending.failed("incompatible", f"{found}: {self._versions}")
        except (EveryBranchWaits, PauseRequested, AwaitingReview) as interruption:
            return await self._interrupted(interruption)
        except (WorkerLeaving, Fenced, StaleLimits, JournalUnwritable, Unencodable):
            raise
        except Exception:
            log.exception("%s: internal error while playing the strategy", self._journal.id)
            return Ending.failed(INTERNAL, SEE_LOG)

    async def _after(self, refusal: Refusal) -> Ending:
        """Return the ending after a stop or a failure, or after a rejection of what all else needs.

        The best draft judged before stays the result.
        """
        if isinstance(refusal, moves.Rejected):
            await self._writer.write()  # else a draft that was judged last is not in the result
            return Ending.rejected(refusal, await self._journal.result())
        part = self._replay.part_of(refusal)
        if isinstance(refusal, moves.StepError):
            return Ending.failed(refusal.code, refusal.detail, part)
        return Ending.nothing_judged(self._replay, part)

    async def _interrupted(self, why: EveryBranchWaits | PauseRequested | AwaitingReview) -> Ending:
        """Return the ending of a claim after which another one goes on."""
        if isinstance(why, EveryBranchWaits):
            return Ending.parked(why)
        if isinstance(why, AwaitingReview):
            return Ending.awaiting([self._pause(move) for move in why.moves])
        state = await self._writer.write()  # what is done
        assert state.pause is not None
        return Ending.paused_on_request(state.pause, self._replay, await self._place())

    async def _place(self) -> str | None:
        """Return where a word is followed that is said during a requested pause."""
        best, rehearsal = self._replay.best, Rehearsal(self._replay)
        with suppress(Incompatible):  # a claim finds that out before it plays on
            await rehearsal.play(self._strategy())
        return rehearsal.place(best.path if best else None, self._request)

    def _additions(self, outcome: Outcome) -> tuple[Addition, ...]:
        judged = self._replay.iterations | self._writer.unwritten
        return outcome_additions(self._tenant, self._kind, outcome, judged)

    async def _rehearse(self) -> None:
        """Check, once per claim, that the strategy goes on from the journal."""
        if self._replay.steps and not self._is_rehearsed:
            await Rehearsal(self._replay).play(self._strategy())
            self._is_rehearsed = True

    @property
    def _versions(self) -> str:
        return (
            f"it was made for engine version {self._engine_version}, and this worker has engine"
            f" version {ENGINE_VERSION}"
        )

    def _reply(self, move: Move[Any]) -> Awaitable[Any]:
        match move:
            case Ask() | Check() | Call():
                return self._step(move)
            case Judged():
                return self._judged(move)
            case Heard():
                return self._heard(move)
            case Review() | Approval():
                return self._review(move)
            case Together():
                return self._together(move)
        raise TypeError(f"unknown move {type(move).__name__}")

    async def _together(self, move: Together) -> tuple[Any, ...]:
        """Play every part to its end; then raise an error that also stops the whole."""
        self._budget_guard.branches += len(move.parts) - 1
        self._waits.split(len(move.parts))
        try:
            parts = map(self._play_part, move.parts)
            return results_of_parts(await asyncio.gather(*parts, return_exceptions=True))
        finally:
            self._budget_guard.branches += 1
            self._waits.join()

    async def _play_part(self, part: MoveCoroutine[Any]) -> Any:
        """Play a part; journal its last reply without waiting for the other parts."""
        try:
            return await play_moves(part, self._reply)
        except Refusal as refusal:
            return refusal
        finally:
            self._budget_guard.branches -= 1
            self._waits.ended()
            self._count_time()
            if not self._waits.is_parked:
                self._heed(await self._writer.write())

    async def _judged(self, move: Judged) -> Limits:
        recorded = self._replay.limits.get((move.path, move.judgement.scored.score_from))
        if recorded is not None:
            return recorded
        if not self._replay.judgements and not self._writer.unwritten:
            at = self._time.time_in(0)
            metrics.FIRST_DRAFT.observe(metrics.since(self._journal.id, at))
        state = self._writer.state
        self._writer.add(JudgedDraft.of(move, state.limits, state.limits_seq, self._request))
        return state.limits

    async def _heard(self, move: Heard) -> moves.ReviewerReply | None:
        return self._replay.reviewer_replies.get(move.path)

    async def _review(self, move: Review | Approval) -> moves.ReviewerReply:
        reply = self._replay.reviewer_replies.get(move.path)
        if reply is not None:
            return reply
        if (step := self._replay.steps.get(move.path)) is not None:
            left_out: moves.ReviewerReply = step.reply()
            return left_out
        self._admit(move)
        if isinstance(move, Approval) and self._writer.state.finish_requested:
            return self._left_out(move)  # a finish waits for the first draft
        raise AwaitingReview(move)

    def _left_out(self, move: Approval) -> moves.ReviewerReply:
        """Journal that a reviewer is not asked. Raises Stopped."""
        step = RecordedStep(unasked(move))
        self._replay.add(step)
        self._writer.add(step)
        raise Stopped(move.path)

    def _pause(self, move: Review | Approval) -> Ending:
        if isinstance(move, Approval):
            return Ending.awaiting_approval(move, self._plan)
        plan = move.plan or self._plan
        assert plan is not None  # else no strategy asks for a review
        return Ending.paused(move, plan, self._replay, self._request)

    async def _step(self, move: moves.StepMove) -> Any:
        _use(move.path, self._used)
        step = self._replay.steps.get(move.path)
        if step is None:
            prompt = move.prompt if isinstance(move, Ask) else None
            step = RecordedStep(await self._perform(move), prompt=prompt)
            self._replay.add(step)
            if self._leaves_after_step:
                self.leave()
        if not step.is_journaled:
            self._writer.add(step)
        return step.reply()

    async def _perform(self, move: moves.StepMove) -> StepCompleted | StepFailed:
        is_single = isinstance(move, Call) and not move.is_repeatable
        if isinstance(move, Call) and is_single and move.path in self._replay.maybe_sent:
            return interrupted(move)
        if isinstance(move, Call) and is_single:  # once begun, it is sent at once
            self._admit(move)
            await self._executor.prepare(move)
            if self._is_leaving:
                await self._writer.write()  # what is done
                raise WorkerLeaving
        if self._is_pausing():
            raise PauseRequested
        if isinstance(move, Ask) and (why := self._budget_guard.overlong(move)):
            self._admit(move)
            return overlong(move, why)
        granted = self._granted(move)
        if granted is None:
            return refused_entry(move)
        move = granted
        self._writer.under_way[move.path] = None
        try:
            self._heed(await self._writer.write())
            if not is_single:  # it counts as begun: only a stop keeps it from being made
                self._leave_or_pause()
            self._admit(move)
            if self._is_spared(move):
                return spared(move)
            is_traced = current_span().is_recorded
            perform = self._perform_traced if is_traced else self._perform_persistently
            done = await self._in_flight.perform(move, perform(move))
            if done is None:
                self._admit(move)
            return done or (unwaited(move) if isinstance(move, Check) else spared(move))
        finally:
            self._writer.under_way.pop(move.path, None)
            self._budget_guard.settle(move.path)

    def _granted(self, move: moves.StepMove) -> moves.StepMove | None:
        """Return a step with the limit of its reply; None if it is refused beside others.

        Raises `Canceled` or `Stopped` if it must not start, also for want of money.
        """
        if isinstance(move, Ask):
            limits = self._writer.state.limits
            granted = self._budget_guard.reserve(move, self._spent(limits), limits)
            if granted is None:
                if move.prepares or self._budget_guard.waits_for_others(move):
                    return None
                self._writer.stop(StopReason.BUDGET_EXHAUSTED)
            move = granted or move
        self._admit(move)
        return move

    def _spent(self, limits: Limits) -> Usage:
        """Return the usage that counts against the budget.

        A call that never got a reply has an unknown cost and counts as free: a provider's bad hour
        must not end a refinement for want of money.
        """
        if limits.max_cost_usd is None:
            return self._replay.spent
        return self._replay.spent.model_copy(update={"cost_usd": self._replay.spent_usd})

    async def _perform_traced(self, move: moves.StepMove) -> StepCompleted | StepFailed:
        with step_span(move, self._models) as span:
            done = await self._perform_persistently(move)
            describe_entry(span, move, done, is_stored=self._request.store)
            return done

    async def _perform_persistently(self, move: moves.StepMove) -> StepCompleted | StepFailed:
        """Perform a step again and again, until its models do not refuse it any more."""
        tries, spent = 0, self._replay.lost_by(move.path)
        while True:
            try:
                done = await self._executor.perform(
                    move, progress=len(self._replay.steps), tries=tries
                )
            except StepWaits as refusal:
                if self._replay.stopping:  # a check goes on after a stop, but waits for nothing
                    return unwaited(move)
                tries, spent = tries + 1, spent + refusal.usage
                await self._wait(move, refusal, spent)
                if refusal.usage.calls:  # a part of the reply came, and was probably paid for
                    self._budget_guard.settle(move.path)
                    granted = self._granted(move)
                    if granted is None:
                        return refused_entry(move)
                    move = granted
            else:
                has_more = tries or spent.calls
                return done.model_copy(update={"usage": spent + done.usage}) if has_more else done

    async def _wait(self, move: moves.StepMove, refusal: StepWaits, spent: Usage) -> None:
        """Wait until the models that refused a step may take it; it has `spent` that so far.

        Raises `EveryBranchWaits` if that is for long, and nothing else goes on.
        """
        wait = refusal.wait
        lost = spent if spent.calls else None
        waiting = Waiting(
            key=move.path,
            reason=wait.reason,
            model=wait.awaited,
            until=self._time.time_in(wait.wait_s),
            since=self._time.time_in(0),
            detail=str(refusal),
            lost=lost,
        )
        self._writer.wait(waiting)
        current_span().event("waits", {"hone.model": wait.awaited, "hone.wait_s": wait.wait_s})
        with self._waits.waiting(move.path, wait.wait_s, refusal.awaited):
            self._count_time()
            if not self._waits.is_parked:
                self._heed(await self._writer.write())
            await self._waits.over(move.path)
            self._leave_or_pause()
        self._count_time()

    def _admit(self, move: moves.StepMove | Review | Approval) -> None:
        """Raise `Canceled` or `Stopped` if a step must not start."""
        if self._writer.state.status is Status.CANCELING:
            raise Canceled
        if self._replay.stopping and (self._are_checks_over or not isinstance(move, Check)):
            raise Stopped

    def _leave_or_pause(self) -> None:
        if self._is_leaving:
            raise WorkerLeaving
        if self._is_pausing():
            raise PauseRequested

    def _is_pausing(self) -> bool:
        """Return whether a requested pause is due: what ends anyway does not pause."""
        state = self._writer.state
        if state.pause is None or self._replay.stopping:
            return False
        return not state.finish_requested and state.status is not Status.CANCELING

    def _heed(self, state: State) -> None:
        """Apply what the API has decided meanwhile."""
        self._replay.stopping = self._replay.stopping or state.stopping
        if state.finish_requested and self._replay.best:
            self._writer.stop(StopReason.FINISHED_EARLY)
        if self._replay.stopping not in (None, StopReason.BUDGET_EXHAUSTED):  # checks cost nothing
            self._time.end_checks(self._end_checks)
        if self._is_pausing():
            self._waits.interrupt()
        self._count_time()
        self._abort()

    def _count_time(self) -> None:
        """Let time count as played or as waited, as it is now."""
        limits = self._writer.state.limits
        self._time.set(limits, self._overdue, waits=self._waits.is_everywhere)

    def _overdue(self, limit: TimeLimit) -> None:
        self._writer.stop(StopReason.DEADLINE, limit)
        self._time.end_checks(self._end_checks)
        self._abort()

    def _end_checks(self) -> None:
        self._are_checks_over = True
        self._abort()

    def _abort(self) -> None:
        state = self._writer.state
        canceling = state.status is Status.CANCELING
        stopping = self._replay.stopping is not None
        if not canceling and not stopping and not state.finish_requested:
            return

        def is_refused(move: moves.StepMove) -> bool:
            is_cut_off = self._are_checks_over or self._waits.has(move.path)
            goes_on = isinstance(move, Check) and not is_cut_off
            if isinstance(move, Call) and not move.is_repeatable:
                return False  # its outcome would be unknown
            return canceling or (stopping and not goes_on) or self._is_spared(move)

        self._in_flight.abort(is_refused)

    def _is_spared(self, move: moves.StepMove) -> bool:
        """Return whether a finish that waits for the first draft skips a step."""
        return self._writer.state.finish_requested and not self._replay.best and move.prepares


def _drawn_in(submitted: Submitted) -> tuple[str, ...]:
    """Return the seats of the models that were drawn, including seats in stages."""
    roles = submitted.request.models.drawn_from()
    if not roles or not submitted.request.learn:
        return ()
    stages = (seat for seat in submitted.models if seat.startswith("generator/"))
    return (*roles, *stages)
