"""What a refinement has done so far: read from its journal, and extended as it continues."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.contract.events import (
    Changed,
    Event,
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
from app.contract.judgement import ScoreFrom, Usage
from app.contract.limits import Limits, TimeLimit
from app.contract.providers import cost_usd
from app.contract.reviews import Paused, PlannedCall, Reviewed
from app.contract.snapshot import Best, IterationScore
from app.contract.statistics import NO_USE, UNKNOWN_MODEL, ModelUse
from app.contract.status import Caveat, StopReason
from app.contract.waiting import Waiting
from workers.engine import moves
from workers.engine.moves import about
from workers.engine.prompts import Prompt
from workers.engine.replies.reader import OVERLONG

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
    return cost_usd(wait.model, lost.input_tokens, lost.output_tokens) or 0.0


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
