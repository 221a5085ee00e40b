"""The journal of a claimed refinement: read as the claim begins, extended and written in it.

A replay has what the journal says of steps, reviews and scores. The writer appends steps that are
done or under way, judged drafts, and how the refinement ends or pauses: status, result, caveats,
and what that adds to sums.
"""

import asyncio
import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from pydantic_core import PydanticSerializationError

from app.contract.events import (
    Changed,
    Event,
    EventType,
    IterationCompleted,
    Queued,
    Resumed,
    Retried,
    Started,
    StepCompleted,
    StepFailed,
    StepStarted,
    Stopping,
    TextReply,
    ToolReply,
    unvoided,
)
from app.contract.judgement import Criterion, IssueNote, QualityEstimate, ScoreFrom, Usage
from app.contract.limits import Limits, TimeLimit
from app.contract.object_drafts import ObjectText, object_in
from app.contract.providers import cost_usd
from app.contract.requests import RefinementRequest
from app.contract.reviews import Paused, PendingPause, PlannedCall, Reviewed, ReviewPlan
from app.contract.snapshot import Best, Failure, IterationScore, Result
from app.contract.statistics import (
    NO_USE,
    UNKNOWN_MODEL,
    ModelUse,
    gains_of,
    insights_of,
    lost_from,
    score_gain,
)
from app.contract.status import (
    BLOCKING,
    TEXT_MISSING,
    WHOLE,
    Caveat,
    RefinementOutcome,
    Shortfall,
    Status,
    StopReason,
)
from app.contract.values import value
from app.contract.waiting import REFUSALS, Waiting
from app.store import (
    Addition,
    Entry,
    Fenced,
    Fields,
    Journal,
    Parking,
    StaleLimits,
    State,
    Submitted,
)
from app.store.prompts import KeptPrompt, PromptKeeper, step_name
from app.store.redis.connection import until_answered
from app.store.statistics import Agreement, Hypotheses, Kind, agreements, insight_additions, lessons
from app.telemetry import metrics
from workers.engine import moves
from workers.engine.judging import error_weights
from workers.engine.moves import Approval, Judged, Judgement, Rejected, Review, about
from workers.engine.prompts import Prompt
from workers.engine.quality import HYPOTHESES
from workers.engine.replies.reader import OVERLONG
from workers.engine.search import Outcome
from workers.play.limits import EveryBranchWaits

log = logging.getLogger(__name__)

REFUSED = "budget_exhausted"
"""The code of a call that the budget did not allow beside the calls in flight."""

NOTHING = Usage()

SPARED = "finished_early"
"""The code of a preparing step that is skipped because a finish waits for the first draft."""

INTERNAL = "internal_error"
"""The code of a failure that only the log of the worker explains."""

UNKNOWN = "whether the call took effect is unknown, and it is not made again"

UNWAITED = "stopped_waiting"
"""The code of a check whose endpoint was away when the refinement was stopped."""


@dataclass
class RecordedStep:
    """One step that was completed or failed, and whether it is journaled."""

    entry: StepCompleted | StepFailed
    is_journaled: bool = False
    prompt: Prompt | None = None
    """What was asked, if this claim performed it: it is kept with the step."""

    def reply(self) -> Any:
        """Return the reply for the strategy. Raises `Stopped` or `StepError` for a failed step."""
        match self.entry:
            case StepFailed(key=key, code=code, detail=detail):
                if code in {REFUSED, SPARED, UNWAITED}:
                    raise moves.Stopped(key)
                raise moves.StepError(code, detail, (key,))
            case StepCompleted(reply=TextReply(text=text)):
                return text
            case StepCompleted(reply=ToolReply(ok=ok, text=text)):
                return moves.ToolResult(ok, text)
        return self.entry.reply


@dataclass
class Replay:
    """Steps and reviews by key, limits and scores by path of iteration, and the usage in total.

    A draft that a reviewer rated was judged twice, so limits are also keyed by the score's source.
    """

    steps: dict[str, RecordedStep] = field(default_factory=dict)
    reviewer_replies: dict[str, moves.ReviewerReply] = field(default_factory=dict)
    """By the key of the review; replies during a requested pause by their place."""
    shown: dict[str, PlannedCall | None] = field(default_factory=dict)
    """The calls of tools that reviewers were shown, by the key of the review."""
    maybe_sent: set[str] = field(default_factory=set)
    """Keys of the steps that earlier claims have begun, and may have sent."""
    limits: dict[tuple[str, ScoreFrom], Limits] = field(default_factory=dict)
    scores: dict[str, IterationScore] = field(default_factory=dict)
    best: Best | None = None
    usage: Usage = NOTHING
    used: dict[str, ModelUse] = field(default_factory=dict)
    """The usage by model."""
    known_cost_usd: float = 0.0
    """What is known of the cost: of a step that has lost a reply on the way, the one it got."""
    stopping: StopReason | None = None
    limit: TimeLimit | None = None
    """Which limit of time was reached, if it stops because of one."""
    waits: dict[str, Waiting] = field(default_factory=dict)
    """The steps that were refused and have no reply yet, by key."""
    lost: dict[str, Waiting] = field(default_factory=dict)
    """The waits of steps whose replies broke off, by key, until an entry has what they consumed."""
    voided: Counter[str] = field(default_factory=Counter)
    """How many replies of a step retries have voided, by key."""
    judgements: list[IterationCompleted] = field(default_factory=list)
    """The judgements that stand, in their order."""
    void_steps: list[StepCompleted | StepFailed] = field(default_factory=list)

    def add(self, step: RecordedStep) -> None:
        """Record a step and its usage."""
        key = step.entry.key
        self.steps[key] = step
        lost = self.lost.get(key)
        self._count(step.entry, lost)
        if lost is not None and step.entry.usage.calls:  # else it was not performed in the end
            del self.lost[key]
        is_unwaited = isinstance(step.entry, StepFailed) and step.entry.code == UNWAITED
        if key in self.waits and not is_unwaited:
            del self.waits[key]

    def wait(self, waiting: Waiting) -> None:
        """Record that a step waits, and what it has lost by now."""
        self.waits[waiting.key] = waiting
        if waiting.lost is not None:
            self.lost[waiting.key] = waiting

    def lost_by(self, key: str) -> Usage:
        """Return what the replies to a step consumed that broke off."""
        wait = self.lost.get(key)
        return NOTHING if wait is None or wait.lost is None else wait.lost

    @property
    def spent(self) -> Usage:
        """What all steps have consumed, with the replies that broke off."""
        return sum(map(self.lost_by, self.lost), self.usage) if self.lost else self.usage

    @property
    def used_by_model(self) -> dict[str, ModelUse]:
        """What all steps have consumed by model, with the replies that broke off."""
        used = dict(self.used)
        for key, wait in self.lost.items():
            _use(used, wait.called, self.lost_by(key))
        return used

    @property
    def spent_usd(self) -> float:
        """The cost that is known or can be estimated."""
        return self.known_cost_usd + sum(map(_estimated_usd, self.lost.values()))

    def heard(self, reply: moves.ReviewerReply, asked: Paused) -> None:
        """Record the reply of a reviewer; one that answers no review has a place."""
        if reply.action == "resume":
            return
        seen = asked.path and f"iterations/{asked.path.rpartition('iterations/')[2]}"
        is_asked = asked.place is None
        self.reviewer_replies[asked.place or asked.key] = (
            reply if is_asked else replace(reply, of=seen)
        )

    def give_up(self) -> None:
        """Count what was lost by steps that begin anew, after a retry."""
        self.usage, self.known_cost_usd = self.spent, self.spent_usd
        self.used = self.used_by_model
        self.waits.clear()
        self.lost.clear()

    def judged(self, iteration: IterationCompleted) -> None:
        """Record that a draft was judged, and the limits that were the reply."""
        self.limits[iteration.path, iteration.score_from] = iteration.limits
        self.scores[iteration.path] = iteration_score(iteration)
        self.best = iteration.best
        self.judgements.append(iteration)

    @property
    def ended_by(self) -> StopReason | None:
        """Why it was stopped from outside; None if only its strategy ended.

        Without a journaled reason, a call was not allowed beside others in flight.
        """
        if self.stopping is None and REFUSED in [
            step.entry.code for step in self.steps.values() if isinstance(step.entry, StepFailed)
        ]:
            return StopReason.BUDGET_EXHAUSTED
        return self.stopping

    @property
    def iterations(self) -> dict[str, IterationCompleted]:
        """Every judged draft by its path, as it was judged last."""
        return {judged.path: judged for judged in self.judgements}

    @property
    def paid(self) -> list[StepCompleted | StepFailed]:
        """All steps, including the steps that a retry voided."""
        return [*self.void_steps, *(step.entry for step in self.steps.values())]

    def void(self, step: StepCompleted | StepFailed) -> None:
        """Record that a retry voided a step; its usage stays counted."""
        self.voided[step.key] += 1
        self.void_steps.append(step)
        self._count(step)

    def _count(self, step: StepCompleted | StepFailed, lost: Waiting | None = None) -> None:
        self.usage += step.usage
        _use(self.used, step.model or UNKNOWN_MODEL, step.usage)
        cost = step.usage.cost_usd
        if cost is None and isinstance(step, StepCompleted) and step.model:
            cost = cost_usd(step.model, step.usage.input_tokens, step.usage.output_tokens)
        elif cost is None and lost is not None:
            cost = _estimated_usd(lost)
        self.known_cost_usd += cost or 0.0

    def dropped(self, path: str) -> tuple[Caveat, ...]:
        """Return what was dropped of the replies about the draft at `path`, or about all drafts."""
        return tuple(
            caveat
            for key, step in self.steps.items()
            if key.startswith(f"{path}/") or "iterations/" not in key
            if isinstance(step.entry, StepCompleted)
            for caveat in step.entry.caveats
        )

    def part_of(self, refusal: moves.Refusal) -> tuple[str, ...]:
        """Return the keys of the recorded steps that make up a refusal."""
        return tuple(
            key
            for key in self.steps
            if any(key == step or key.startswith(f"{step}/") for step in refusal.steps)
        )


def _use(used: dict[str, ModelUse], model: str, usage: Usage) -> None:
    """Add what a step has consumed; checks and calls of tools consume nothing."""
    if any(use := ModelUse.of(usage)):
        used[model] = used.get(model, NO_USE).plus(use)


def _estimated_usd(wait: Waiting) -> float:
    """Return what the replies that broke off probably cost; 0 for a model without a price."""
    lost = wait.lost or Usage()
    return cost_usd(wait.called, lost.input_tokens, lost.output_tokens) or 0.0


def replay_of(events: Sequence[Event]) -> Replay:
    """Return the replay of a journal, without what retries have voided.

    A reviewer's decision carries the limits then in force: a change after it counts from the next
    judged draft on, whenever and however often the journal is replayed.
    """
    recorded = Replay(maybe_sent=_maybe_sent(events))
    limits: Limits | None = None
    counting = unvoided(events)
    numbers = {event.event for event in counting}
    voided_at: dict[str, int] = {}
    paused: dict[str, Paused] = {}
    for event in events:
        if event.event not in numbers and isinstance(event.data, StepCompleted | StepFailed):
            recorded.void(event.data)
            voided_at[event.data.key] = event.event
    for event in counting:
        match event.data:
            case Queued() | Changed():
                limits = event.data.limits
            case Retried():
                limits = event.data.limits
                recorded.give_up()
            case StepCompleted() | StepFailed():
                recorded.add(RecordedStep(event.data, is_journaled=True))
            case IterationCompleted():
                recorded.judged(event.data)
            case Paused():
                paused[event.data.key] = event.data
                recorded.shown[event.data.key] = event.data.call
            case Reviewed(key=key):
                recorded.heard(_word(event.data, limits), paused[key])
            case Stopping():
                recorded.stopping, recorded.limit = event.data.reason, event.data.limit
            case Waiting():
                is_counted = event.event < voided_at.get(event.data.key, 0)
                recorded.wait(event.data.without_loss() if is_counted else event.data)
    return recorded


def _maybe_sent(events: Sequence[Event]) -> set[str]:
    """Return the keys of begun steps, except steps that were certainly not sent.

    A worker ends a refinement only when no call is open, so a begun step without a reply was not
    sent. The exception is `poisoned`: there the worker died.
    """
    sent: set[str] = set()
    under_way: set[str] = set()
    for event in events:
        match event.data:
            case Started() | Resumed():
                sent |= under_way
                under_way = set()
            case StepStarted():
                under_way |= {*event.data.next}
            case StepCompleted() | StepFailed():
                sent.add(event.data.key)
                under_way |= {*event.data.next}
            case Retried() if event.data.reason.code != "poisoned":
                under_way = set()
    return sent | under_way


def refused_entry(move: moves.StepMove) -> StepFailed:
    """Return the journal entry of a call that the budget does not allow beside the others."""
    detail = "the rest of the budget is reserved for calls in flight and the first draft"
    return _not_performed(move, REFUSED, detail)


def overlong(move: moves.Ask, detail: str) -> StepFailed:
    """Return the journal entry of a text that is not rewritten, as no reply can be so long."""
    return _not_performed(move, OVERLONG, detail)


def spared(move: moves.StepMove) -> StepFailed:
    """Return the journal entry of a step that a finish skips."""
    detail = "a finish was requested: the first draft is written without this step"
    return _not_performed(move, SPARED, detail)


def unasked(move: moves.Approval) -> StepFailed:
    """Return the journal entry of an approval that a finish skips."""
    detail = "a finish was requested: the first draft is written without this call"
    return StepFailed(key=move.path, code=SPARED, detail=detail, usage=Usage(), next=())


def unwaited(move: moves.StepMove) -> StepFailed:
    """Return the journal entry of a check that would have to wait after a stop."""
    detail = "the refinement was stopped while an endpoint that checks drafts was away"
    return _not_performed(move, UNWAITED, detail)


def unencodable(entry: StepCompleted | StepFailed) -> StepFailed:
    """Return the journal entry, with the same usage, of a step whose reply cannot be written."""
    detail = "the reply has a text that is not Unicode"
    return StepFailed(
        key=entry.key, code=INTERNAL, detail=detail, usage=entry.usage, about=entry.about, next=()
    )


def interrupted(move: moves.Call) -> StepCompleted:
    """Return the journal entry of a call that a worker had begun when it died.

    It is not made again: it may have taken effect.
    """
    return StepCompleted(
        key=move.path,
        kind="call",
        reply=ToolReply(ok=False, text=f"the worker that called {move.tool} died: {UNKNOWN}"),
        usage=Usage(),
        seconds=0,
        about=about(move),
        next=(),
    )


def _not_performed(move: moves.StepMove, code: str, detail: str) -> StepFailed:
    return StepFailed(
        key=move.path, code=code, detail=detail, usage=Usage(), about=about(move), next=()
    )


def iteration_score(entry: IterationCompleted) -> IterationScore:
    """Return the snapshot's entry for the score of a judged draft."""
    return IterationScore(iteration=entry.iteration, path=entry.path, score=entry.score)


def _word(said: Reviewed, limits: Limits | None) -> moves.ReviewerReply:
    return moves.ReviewerReply(
        said.action,
        said.feedback,
        said.draft,
        said.score,
        limits,
        arguments=said.arguments,
        spans=said.spans,
        is_timeout=said.by == "timeout",
    )


OF_THE_BANK = Hypotheses(
    noise=tuple(hypothesis.noise for hypothesis in HYPOTHESES),
    gain=tuple(hypothesis.gain for hypothesis in HYPOTHESES),
    prior=tuple(hypothesis.prior for hypothesis in HYPOTHESES),
)

VALIDATORS_WEIGHT = 0.25
"""What a pair compared by validators weighs, against 1 by a person: they see a part of it."""


def learning_kind(submitted: Submitted) -> Kind | None:
    """Return the kind of a refinement; None if it neither learns nor is learnt from."""
    models = {seat: choice.model for seat, choice in submitted.models.items()}
    return Kind.of(submitted.request, models) if submitted.request.learn else None


def outcome_additions(
    tenant: str, kind: Kind | None, outcome: Outcome, judged: Mapping[str, IterationCompleted]
) -> tuple[Addition, ...]:
    """Return what an outcome adds; `judged` has every judged draft by its path."""
    if kind is None:
        return ()
    lesson = outcome.lesson
    learnt = () if lesson is None else lessons(tenant, kind, lesson, OF_THE_BANK)
    return (*learnt, *agreements(tenant, kind.critic, agreements_in(judged)))


def agreements_in(judged: Mapping[str, IterationCompleted]) -> Iterator[Agreement]:
    """Yield how the critic agrees with the validators about each revision and its parent.

    The better of the two has fewer and lighter findings. Pairs without such a difference, and those
    that critics did not score, say nothing.
    """
    for draft in judged.values():
        parent = judged.get(draft.parent or "")
        if parent is None or {draft.score_from, parent.score_from} != {"critique"}:
            continue
        if draft.score is None or parent.score is None:
            continue
        if not (draft.findings or parent.findings):
            continue
        fewer = sum(error_weights(parent.findings)) - sum(error_weights(draft.findings))
        if fewer:
            apparent = draft.score - parent.score
            agrees = apparent * fewer > 0
            yield Agreement.of_preference(apparent, agrees=agrees, weight=VALIDATORS_WEIGHT)


def best_of(judgement: Judgement, path: str) -> Best:
    """Return the snapshot's entry for the best draft."""
    scored = judgement.scored
    return Best(
        iteration=judgement.iteration, path=path, score=scored.score, sha256=scored.draft.sha256
    )


MOST_CAVEATS = 50
"""Caveats of a result; those that keep it from passing go first."""


NO_TEXT = "no text was written for it"


def unique_caveats(caveats: Iterable[Caveat]) -> tuple[Caveat, ...]:
    """Return the caveats of a result, as many as fit, each once."""
    first = BLOCKING | {TEXT_MISSING}
    known = sorted(dict.fromkeys(caveats), key=lambda caveat: caveat.code not in first)
    return tuple(known[:MOST_CAVEATS])


def result_of(
    request: RefinementRequest,
    judgement: Judgement,
    path: str,
    missing: tuple[str, ...] = (),
    estimate: QualityEstimate | None = None,
    caveats: Iterable[Caveat] = (),
) -> Result:
    """Return a draft with the score of exactly that text; `missing` lists parts without a draft.

    `caveats` are those about the work on it; what its verdict lacks, and those that the request
    brings with it, are added.
    """
    scored = judgement.scored
    return Result(
        draft=scored.draft.text,
        object=object_in(scored.draft.text) if isinstance(request.draft, ObjectText) else None,
        iteration=judgement.iteration,
        path=path,
        score=scored.score,
        score_from=scored.score_from,
        sha256=scored.draft.sha256,
        estimate=estimate,
        outputs={},  # pydantic would copy the default
        caveats=unique_caveats(
            (
                *(Caveat(code=TEXT_MISSING, path=at, detail=NO_TEXT) for at in missing),
                *caveats,
                *(caveat.under(path) for caveat in scored.caveats),
                *request.caveats(),
            )
        ),
    )


@value()
class Ending:
    """The status in which a refinement ends or pauses, and the `Fields` that change with it.

    With `parking` the status stays as it is, and only the claim ends.
    """

    status: Status | None
    changes: Mapping[str, Any]
    asked: tuple[Paused, ...] = ()
    parking: Parking | None = None
    additions: tuple[Addition, ...] = ()
    """What the ending adds to the sums of the tenant."""

    @property
    def outcome(self) -> RefinementOutcome | None:
        """The outcome; None if the refinement goes on."""
        if self.status is None or not self.status.is_terminal:
            return None
        if self.status is not Status.SUCCEEDED:
            return RefinementOutcome(self.status)
        if self.changes.get("result") is None:
            return RefinementOutcome.FAILED
        is_passed = bool(self.changes.get("best_passed"))
        return RefinementOutcome.PASSED if is_passed else RefinementOutcome.BEST_EFFORT

    def under(self, status: Status) -> Self:
        """Return what was written: a cancel that was under way overrules success and failure."""
        if status is not Status.CANCELED or self.status is None:
            return self
        changes = {**self.changes, "stop_reason": StopReason.CANCELED, "error": None}
        return replace(self, status=status, changes=changes)

    @classmethod
    def succeeded(
        cls,
        outcome: Outcome,
        recorded: Replay,
        request: RefinementRequest,
        threshold: float,
        additions: tuple[Addition, ...] = (),
    ) -> Self:
        """Return the ending for an outcome; a strategy that was stopped from outside has no reason.

        The reason `completed` does not count after a stop, since parts were refused.
        """
        stopping, path = recorded.stopping, outcome.best.path
        reason = None if stopping and outcome.reason is StopReason.COMPLETED else outcome.reason
        caveats = (*outcome.every_caveat, *recorded.dropped(path))
        result = result_of(request, outcome.best, path, outcome.missing, outcome.estimate, caveats)
        changes = {
            "stop_reason": reason or recorded.ended_by or StopReason.COMPLETED,
            "best": best_of(outcome.best, path),
            "result": result.model_copy(
                update={"comparison": outcome.comparison, "outputs": dict(outcome.outputs)}
            ),
            "best_passed": outcome.passed,
            "lacks": "" if outcome.passed else _lacking(outcome, result, request, threshold),
        }
        return cls(Status.SUCCEEDED, changes, additions=additions)

    @classmethod
    def paused(
        cls, move: Review, plan: ReviewPlan, recorded: Replay, request: RefinementRequest
    ) -> Self:
        """Return the pause for the review of a draft.

        Work that is done is shown as it would end now: a cancel during the review ends it so.
        """
        scored = move.judgement.scored
        what = "The draft" if move.result is None else "The result"
        score = "was not measured" if scored.score is None else f"scored {scored.score:g}"
        asked = Paused(
            key=move.path,
            path=move.draft_path,
            iteration=move.judgement.iteration,
            score=scored.score,
            sha256=scored.draft.sha256,
            when=move.when,
            timeout_s=plan.timeout_s,
            on_timeout=plan.on_timeout,
            question=f"{what} at {move.draft_path} {score}. {_choices(plan)}",
            reviewers=plan.reviewers,
            approvals_needed=plan.approvals_needed,
        )
        changes: dict[str, Any] = {"phase": (move.path,)}
        if (found := move.result) is not None:
            judged, path = move.judgement, move.judgement.path
            caveats = (*found.caveats, *recorded.dropped(path))
            changes |= {
                "best": best_of(judged, path),
                "result": result_of(request, judged, path, found.missing, found.estimate, caveats),
                "best_passed": found.passed,
            }
        return cls(Status.PAUSED, changes, (asked,))

    @classmethod
    def awaiting(cls, pauses: Sequence[Self]) -> Self:
        """Return one pause for several reviews that are open at a time."""
        asked = tuple(review for each in pauses for review in each.asked)
        changes = {**pauses[0].changes, "phase": tuple(review.key for review in asked)}
        return cls(Status.PAUSED, changes, asked)

    @classmethod
    def paused_on_request(cls, pause: PendingPause, recorded: Replay, place: str | None) -> Self:
        """Return the pause that a client has requested, with the best draft so far.

        A revision of it, or a text in its place, is followed at `place`.
        """
        best = recorded.best
        state = "No draft was judged yet."
        if best is not None:
            score = "was not measured" if best.score is None else f"scored {best.score:g}"
            state = f"The best draft so far, at {best.path}, {score}."
        text = ""
        if place is not None:
            text = " give the first one," if best is None else " say what to revise, give a text,"
        asked = Paused(
            key=pause.key,
            **(best.model_dump() if best else {}),
            when="requested",
            timeout_s=pause.timeout_s,
            on_timeout=pause.on_timeout,
            question=f"It was paused on request. {state} Resume it,{text} change its limits, finish"
            " or cancel it.",
            place=place,
        )
        return cls(Status.PAUSED, {"phase": ()}, (asked,))

    @classmethod
    def awaiting_approval(cls, move: Approval, plan: ReviewPlan | None) -> Self:
        """Return the pause for the approval of a call; without an answer it is not made.

        The reviewers are those of `plan`, who decide about drafts as well.
        """
        call = move.call
        again = f"The arguments given cannot be sent: {move.error}. " if move.error else ""
        arguments = json.dumps(call.arguments, ensure_ascii=False)
        needed = plan.approvals_needed if plan else 1
        choices = "Approve it, replace its arguments, or reject it with the reason."
        if needed > 1:
            choices = f"Approve it, or reject it with the reason. It takes {needed} approvals."
        asked = Paused(
            key=move.path,
            path=move.path.partition("/approval")[0],
            score=None,
            call=call,
            when="before_call",
            timeout_s=move.timeout_s,
            on_timeout="reject",
            question=f"{again}Call {call.tool} with {arguments[:MOST_SHOWN]}? {choices}",
            reviewers=plan.reviewers if plan else (),
            approvals_needed=needed,
        )
        return cls(Status.PAUSED, {"phase": (move.path,)}, (asked,))

    @classmethod
    def parked(cls, waits: EveryBranchWaits) -> Self:
        """Return the end of a claim whose steps all wait for models."""
        return cls(None, {"phase": waits.keys}, parking=Parking(waits.awaited))

    @classmethod
    def canceled(cls) -> Self:
        """Return the ending of a refinement whose work has really stopped."""
        return cls(Status.CANCELED, {"stop_reason": StopReason.CANCELED})

    @classmethod
    def rejected(cls, rejection: Rejected, result: Result | None) -> Self:
        """Return the ending after a rejection of what all the rest needs.

        The best draft judged before stays the result, with caveats about what was given up.
        """
        changes: dict[str, Any] = {"stop_reason": StopReason.REJECTED, "best_passed": False}
        if result is not None:
            caveats = unique_caveats((*rejection.caveats, *result.caveats))
            changes["result"] = result.model_copy(update={"caveats": caveats})
        return cls(Status.SUCCEEDED, changes)

    @classmethod
    def failed(cls, code: str, detail: str, steps: tuple[str, ...] = ()) -> Self:
        """Return the ending after an error; the best draft judged before stays the result.

        `steps` are the keys of the recorded steps that make up the failure.
        """
        error = Failure(code=code, detail=detail, steps=steps)
        return cls(Status.FAILED, {"stop_reason": StopReason.ERROR, "error": error})

    @classmethod
    def nothing_judged(cls, recorded: Replay, steps: tuple[str, ...] = ()) -> Self:
        """Return the ending of a refinement that was stopped before a draft was judged."""
        reason: str = recorded.ended_by or "its strategy ended"
        if recorded.limit:
            reason = f"{reason}: {recorded.limit}"
        detail = f"stopped before a draft was judged ({reason})"
        for wait in list(recorded.waits.values())[-1:]:
            detail = f"{detail} while it waited for {wait.model}, which {REFUSALS[wait.reason]}"
        return cls.failed("nothing_judged", detail, steps)


def _lacking(outcome: Outcome, result: Result, request: RefinementRequest, threshold: float) -> str:
    """Return what keeps the best draft from passing, for the reason of the outcome."""
    scored = outcome.best.scored
    found = Shortfall(
        score=scored.score,
        scores=scored.scores,
        findings=scored.findings,
        floors={
            of.name: of.floor
            for of in request.criteria
            if isinstance(of, Criterion) and of.floor is not None
        },
        caveats=result.caveats,
        is_mean=scored.score_from == "critique",
    )
    return found.text(threshold, frozenset(request.accept))


MOST_SHOWN = 2_000
"""Characters of arguments in a question; the event and the snapshot have all of them."""


def _choices(plan: ReviewPlan) -> str:
    """Return what reviewers can decide, in words."""
    rest = "Approve it, reject it, say what to revise,"
    if plan.approvals_needed == 1:
        return f"{rest} give a text in its place, or rate it."
    return f"{rest} or give a text in its place. It takes {plan.approvals_needed} approvals."


ITERATION = re.compile(r"iterations/(\d+)/")

LAST_TYPE = {
    Status.PAUSED: EventType.PAUSED,
    Status.SUCCEEDED: EventType.COMPLETED,
    Status.FAILED: EventType.FAILED,
    Status.CANCELED: EventType.CANCELED,
}


@value()
class JudgedDraft:
    """A judged draft for the journal; `result` is set if the result may change with it."""

    entry: IterationCompleted
    result: Result | None
    best_passed: bool
    limits_seq: int

    @classmethod
    def of(
        cls,
        move: Judged,
        limits: Limits,
        limits_seq: int,
        request: RefinementRequest,
    ) -> Self:
        """Return the journal entry of a judged draft, with absolute paths and the given limits."""
        judgement, scored = move.judgement, move.judgement.scored
        prefix = move.path.removesuffix(judgement.path)
        parent = scored.draft.parent
        threshold = limits.threshold if move.threshold is None else move.threshold
        best, best_path = move.best, prefix + move.best.path
        entry = IterationCompleted(
            iteration=judgement.iteration,
            path=move.path,
            sha256=scored.draft.sha256,
            parent=None if parent is None else _absolute(prefix, parent),
            score=scored.score,
            score_from=scored.score_from,
            scores=scored.scores,
            passed=scored.passes(threshold),
            findings=(*scored.findings, *scored.critique.findings),
            strengths=scored.critique.strengths,
            weaknesses=scored.critique.weaknesses,
            suggestions=scored.critique.suggestions,
            asked=scored.draft.asked,
            draft=None if scored.draft.is_reply else scored.draft.text,
            edits=scored.draft.edits,
            escape=scored.draft.escape,
            fixes=scored.draft.fixes,
            issues=_notes(judgement, prefix),
            best=best_of(best, best_path),
            estimate=move.estimate,
            limits=limits,
        )
        result = None
        if not move.is_same:
            caveats = (move.lower.under(prefix.removesuffix("/")),) if move.lower else ()
            lacking = request.strategy.lacks(best_path, draft=request.draft)
            result = result_of(request, best, best_path, lacking, move.estimate, caveats)
        passed = best_path.startswith(WHOLE) and best.scored.passes(threshold)
        return cls(entry, result, passed, limits_seq)


def _absolute(prefix: str, path: str) -> str:
    return path[1:] if path.startswith("/") else prefix + path


def _notes(judgement: Judgement, prefix: str) -> tuple[IssueNote, ...]:
    return tuple(
        IssueNote(id=_absolute(prefix, issue.id), state=issue.state, finding=issue.position)
        for issue in judgement.issues.issues
    )


Pending = RecordedStep | JudgedDraft | Stopping | Waiting


class JournalUnwritable(Exception):
    """An append failed in a way that waiting does not mend: the claim is handed back.

    The third claim in a row that ends so ends the refinement, so that no step is paid for ever.
    """


class Unencodable(Exception):
    """Something to be written has a text that is not Unicode. Nothing was written."""


NOT_UNICODE = (UnicodeEncodeError, PydanticSerializationError)


@value(slots=True)
class _Append:
    """One append, and what it makes durable."""

    pending: tuple[Pending, ...]
    under_way: tuple[str, ...]
    entries: Sequence[Entry]
    fields: Fields
    to: Status | None
    limits_seq: int | None
    parking: Parking | None
    waited_s: float
    prompts: Mapping[str, bytes]
    additions: tuple[Addition, ...]


class JournalWriter:
    """Collects entries and writes them in one append.

    Entries stay until an append has taken them, so that nothing that was paid for is lost while
    Redis is unreachable or refuses writes. An append without an answer may have happened: it is
    sent again unchanged before anything else is written. `write` raises `Fenced`, `StaleLimits` and
    `Unencodable`.
    `learning` is the request if the gains of its drafts count, and `drawn` are the seats whose
    models were drawn.
    """

    def __init__(
        self,
        journal: Journal,
        recorded: Replay,
        state: State,
        waited_s: Callable[[], float] = lambda: 0.0,
        *,
        prompts: PromptKeeper | None = None,
        learning: RefinementRequest | None = None,
        drawn: Collection[str] = (),
    ) -> None:
        self.state = state
        self._drawn = drawn
        self._learning = learning
        self._waited_s = waited_s
        self._prompts = prompts
        self.under_way: dict[str, None] = {}
        self._journal = journal
        self._replay = recorded
        self._pending: list[Pending] = []
        self._announced: tuple[str, ...] = ()
        self._told = self._waits()
        self._told_used: Mapping[str, ModelUse] = {}
        self._unanswered: _Append | None = None
        self._lock = asyncio.Lock()

    @property
    def unwritten(self) -> dict[str, IterationCompleted]:
        """The judged drafts of the next append, by path."""
        return {
            change.entry.path: change.entry
            for change in self._pending
            if isinstance(change, JudgedDraft)
        }

    def add(self, done: RecordedStep | JudgedDraft) -> None:
        """Journal a step or a judged draft with the next append."""
        self._pending.append(done)

    def stop(self, reason: StopReason, limit: TimeLimit | None = None) -> None:
        """Journal, once, that no new steps are started."""
        if self._replay.stopping is None:
            self._replay.stopping, self._replay.limit = reason, limit
            stopping = Stopping.model_validate({"reason": reason, "limit": limit})
            self._pending.append(stopping)

    def wait(self, waiting: Waiting) -> None:
        """Journal that a step waits, once for all the times that its models refuse it.

        Journal the wait again if a reply broke off, so that its usage is kept, and if an API key
        begins or stops being refused. Two fallbacks that alternate do not cause an entry each time.
        """
        known = self._replay.waits.get(waiting.key)
        if known is None or known.lost != waiting.lost or waiting.is_news_after(known):
            self._replay.wait(waiting)
            self._pending.append(waiting)

    def start_over(self, state: State) -> None:
        """Drop the entries that a replay under other limits will produce again."""
        self.state = state
        self.under_way.clear()
        self._pending = [
            change for change in self._pending if isinstance(change, Stopping | Waiting)
        ]

    async def write(self, ending: Ending | None = None) -> State:
        """Append the collected entries, the steps under way, and the ending if there is one."""
        async with self._lock:
            if self._unanswered is not None:
                await self._send(self._unanswered)
            pending, under_way = tuple(self._pending), tuple(self.under_way)
            if ending is None and not pending and under_way == self._announced:
                return self.state
            return await self._send(self._append(pending, under_way, ending))

    def fail_unencodable(self) -> tuple[str, ...]:
        """Journal the steps that cannot be encoded as failed, and no judged draft; return the keys
        of these steps."""
        failed: list[str] = []
        self._pending = [done for done in self._pending if not isinstance(done, JudgedDraft)]
        for done in self._pending:
            if isinstance(done, RecordedStep) and not _is_encodable(done.entry):
                failed.append(done.entry.key)
                done.entry, done.prompt = unencodable(done.entry), None
        return tuple(failed)

    def _append(
        self, pending: tuple[Pending, ...], under_way: tuple[str, ...], ending: Ending | None
    ) -> _Append:
        judgings = [change for change in pending if isinstance(change, JudgedDraft)]
        try:
            prompts = self._prompt_fields(pending)
        except NOT_UNICODE as error:
            raise Unencodable(self._journal.id) from error
        return _Append(
            pending,
            under_way,
            _entries(pending, under_way, ending),
            self._fields(judgings, under_way, ending),
            ending.status if ending else None,
            judgings[0].limits_seq if judgings else None,
            ending.parking if ending else None,
            self._waited_s(),
            prompts,
            self._additions(judgings, ending) if ending else (),
        )

    def _prompt_fields(self, pending: Sequence[Pending]) -> dict[str, bytes]:
        """Return what keeps the prompts of steps, as far as they are not kept yet."""
        fields: dict[str, bytes] = {}
        if self._prompts is None:
            return fields
        for done in pending:
            if isinstance(done, RecordedStep) and done.prompt and done.entry.prompt:
                asked, step = done.prompt, done.entry.key
                step = step_name(step, self._replay.voided[step])
                prompt = KeptPrompt(asked.system, asked.user, asked.schema)
                fields |= self._prompts.fields(step, prompt, asked.shared, asked.worded)
                match done.entry:
                    case StepCompleted(reply=TextReply(text=text)) if asked.asks_for_text:
                        self._prompts.replied(step, text)
        return fields

    def _fields(
        self, judgings: Sequence[JudgedDraft], under_way: tuple[str, ...], ending: Ending | None
    ) -> Fields:
        """Return what the append changes in the summary; changes of the ending take precedence."""
        waits = self._waits()
        fields: dict[str, Any] = {"phase": under_way, "usage": self._replay.spent}
        if (used := self._replay.used_by_model) != self._told_used:
            fields["used"] = used
        if waits != self._told:
            fields["waiting"] = waits
        for judging in judgings:
            fields["iteration"] = judging.entry.iteration
            if self._has_whole() and not judging.entry.best.path.startswith(WHOLE):
                continue  # other criteria, and a score that says nothing of the whole
            fields["best"] = judging.entry.best
            if judging.result:
                fields |= {"result": judging.result, "best_passed": judging.best_passed}
        if judgings:
            new = {judging.entry.path: iteration_score(judging.entry) for judging in judgings}
            scores = self._replay.scores | new
            fields["scores"] = tuple(scores.values())
            if self._drawn:
                fields["achieved"] = self._achieved(judgings)
        if (number := _iteration(under_way)) is not None:
            fields["iteration"] = number
        return Fields(**(fields | dict(ending.changes) if ending else fields))

    def _has_whole(self) -> bool:
        return any(path.startswith(WHOLE) for path in self._replay.scores)

    def _achieved(self, judgings: Sequence[JudgedDraft]) -> dict[str, tuple[float, float | None]]:
        """Return gain and cost of the drawn models by seat; a stage counts once it has begun."""
        judged = [*self._replay.judgements, *(judging.entry for judging in judgings)]
        paid = self._replay.paid
        achieved: dict[str, tuple[float, float | None]] = {}
        for seat in self._drawn:
            stage = seat.partition("/")[2]
            steps = [step.usage for step in paid if step.key.startswith(f"{stage}/")]
            if stage and not steps:
                continue
            spent = sum(steps, Usage()) if stage else self._replay.spent
            achieved[seat] = score_gain(stage, judged, paid), spent.cost_usd
        return achieved

    def _additions(self, judgings: Sequence[JudgedDraft], ending: Ending) -> tuple[Addition, ...]:
        """Return what an ending adds to sums: its own, and what its drafts have brought."""
        request = self._learning
        if request is None or ending.status is not Status.SUCCEEDED:
            return ending.additions
        result = ending.changes.get("result")
        try:
            gains = gains_of(
                [*self._replay.judgements, *(judging.entry for judging in judgings)],
                self._replay.paid,
                result.path if result else None,
                lost_from(result),
            )
            named = {criterion.name for rubric in request.rubrics() for criterion in rubric}
            gained = insights_of(gains, request.strategy.kind, self._replay.spent, named)
            return (*ending.additions, *insight_additions(gained))
        except Exception:  # figures must not keep a refinement from ending
            log.exception("%s: its gains were not counted", self._journal.id)
            return ending.additions

    def _waits(self) -> tuple[Waiting, ...]:
        return () if self._replay.stopping else tuple(self._replay.waits.values())

    async def _send(self, append: "_Append") -> State:
        """Append until there is a definite answer; without one it stays `_unanswered`."""
        self._unanswered = append
        try:
            self.state = await until_answered(
                lambda: self._journal.append(
                    append.entries,
                    append.fields,
                    to=append.to,
                    limits_seq=append.limits_seq,
                    parking=append.parking,
                    waited_s=append.waited_s,
                    prompts=append.prompts,
                    additions=append.additions,
                ),
                self._journal.id,
            )
        except (Fenced, StaleLimits):  # nothing was written
            self._unanswered = None
            raise
        except NOT_UNICODE as error:  # nor here
            self._unanswered = None
            raise Unencodable(self._journal.id) from error
        except Exception as error:
            raise JournalUnwritable(self._journal.id) from error
        self._unanswered = None
        metrics.APPENDS.inc()
        if append.fields.waiting is not None:
            self._told = append.fields.waiting
        if append.fields.used is not None:
            self._told_used = append.fields.used
        if self._prompts:
            self._prompts.kept(append.prompts)
        self._written(append.pending, append.under_way)
        return self.state

    def _written(self, pending: Sequence[Pending], under_way: tuple[str, ...]) -> None:
        del self._pending[: len(pending)]
        self._announced = under_way
        for done in pending:
            match done:
                case RecordedStep():
                    done.is_journaled = True
                case JudgedDraft():
                    self._replay.judged(done.entry)


def _entries(
    pending: Sequence[Pending], under_way: tuple[str, ...], ending: Ending | None
) -> list[Entry]:
    entries = [_entry(done, under_way) for done in pending]
    if ending and ending.status:
        last = LAST_TYPE[ending.status]
        entries += [Entry(last, review) for review in ending.asked or (None,)]
    elif not entries and not ending:
        entries.append(Entry(EventType.STEP_STARTED, StepStarted(next=under_way)))
    return entries


def _entry(done: Pending, under_way: tuple[str, ...]) -> Entry:
    match done:
        case Stopping():
            return Entry(EventType.STOPPING, done)
        case Waiting():
            return Entry(EventType.STEP_WAITING, done)
        case JudgedDraft():
            return Entry(EventType.ITERATION_COMPLETED, done.entry)
        case RecordedStep():
            completed = isinstance(done.entry, StepCompleted)
            kind = EventType.STEP_COMPLETED if completed else EventType.STEP_FAILED
            return Entry(kind, done.entry, under_way)


def _is_encodable(entry: StepCompleted | StepFailed) -> bool:
    try:
        entry.model_dump_json()
    except PydanticSerializationError:
        return False
    return True


def _iteration(under_way: tuple[str, ...]) -> int | None:
    numbers = [int(found[1]) for key in under_way if (found := ITERATION.match(key))]
    return max(numbers, default=None)
