"""The events of one refinement: a draft of 0.41 becomes one of 0.91."""

from collections.abc import Sequence
from datetime import UTC, datetime

from app.contract.events import (
    Event,
    EventData,
    EventType,
    IterationCompleted,
    Queued,
    Started,
    StepCompleted,
    StepStarted,
    TextReply,
)
from app.contract.judgement import CriterionScore, Usage
from app.contract.limits import Limits
from app.contract.reviews import Paused
from app.contract.snapshot import Best, Diff, IterationScore, Result, Snapshot
from app.contract.status import RefinementOutcome, Status, StopReason
from app.store.redis.codec import links

ID = "ref_01STORY"
AT = datetime(2026, 5, 4, 6, 30, tzinfo=UTC)
LIMITS = Limits(threshold=0.85, max_iterations=3)
CALL = Usage(calls=1, input_tokens=100, output_tokens=20, seconds=0.5)


def score(number: int, value: float) -> IterationScore:
    return IterationScore(iteration=number, path=f"iterations/{number}", score=value)


def judged(number: int, value: float, *, passed: bool) -> IterationCompleted:
    return IterationCompleted(
        **score(number, value).model_dump(),
        sha256="0" * 64,
        parent=None,
        scores=(CriterionScore(criterion="clarity", score=value),),
        passed=passed,
        findings=(),
        strengths=(),
        weaknesses=(),
        suggestions=(),
        asked=(),
        best=Best(**score(number, value).model_dump(), sha256="0" * 64),
        limits=LIMITS,
    )


def answered(key: str, *then: str) -> StepCompleted:
    return StepCompleted(
        about="0" * 16,
        key=key,
        kind="ask",
        reply=TextReply(text="..."),
        usage=CALL,
        seconds=0.5,
        next=then,
    )


OUTCOMES = {
    Status.SUCCEEDED: RefinementOutcome.PASSED,
    Status.FAILED: RefinementOutcome.FAILED,
    Status.CANCELED: RefinementOutcome.CANCELED,
}


def snapshot(
    status: Status = Status.SUCCEEDED,
    stop_reason: StopReason | None = StopReason.THRESHOLD_MET,
    draft: str | None = "Short.\n",
    outcome: RefinementOutcome | None = None,
) -> Snapshot:
    result = None
    if draft is not None:
        result = Result(**score(1, 0.91).model_dump(), draft=draft, sha256="0" * 64)
    return Snapshot(
        id=ID,
        excerpt="Short, please.",
        status=status,
        outcome=outcome or OUTCOMES.get(status),
        reason="The score is 0.91; the threshold is 0.85." if status.is_terminal else None,
        stop_reason=stop_reason,
        strategy="iterative",
        phase=(),
        iteration=1,
        max_iterations=3,
        threshold=0.85,
        best=None,
        scores=(score(0, 0.41), score(1, 0.91)),
        usage=CALL + CALL,
        result=result,
        error=None,
        parent=None,
        created_at=AT,
        started_at=AT,
        ended_at=AT,
        expires_at=AT,
        last_event=7,
        metadata={},
        links=links(ID),
    )


STORY: Sequence[tuple[EventType, EventData]] = (
    (
        EventType.QUEUED,
        Queued(
            strategy="iterative",
            models={"generator": "offline:editor", "critic": "offline:editor"},
            limits=LIMITS,
            request_sha256="0" * 64,
        ),
    ),
    (EventType.STARTED, Started(token=1)),
    (EventType.STEP_STARTED, StepStarted(next=("iterations/0/critique",))),
    (EventType.STEP_COMPLETED, answered("iterations/0/critique")),
    (EventType.ITERATION_COMPLETED, judged(0, 0.41, passed=False)),
    (EventType.STEP_COMPLETED, answered("iterations/1/revise", "iterations/1/critique")),
    (EventType.ITERATION_COMPLETED, judged(1, 0.91, passed=True)),
)

EVENTS = tuple(
    Event(event=number, type=kind, at=AT, data=data)
    for number, (kind, data) in enumerate(STORY, start=1)
)

PAUSED = Event(
    event=len(EVENTS) + 1,
    type=EventType.PAUSED,
    at=AT,
    data=Paused(
        key="iterations/1/review",
        path="iterations/1",
        iteration=1,
        score=0.91,
        sha256="0" * 64,
        when="each_iteration",
        timeout_s=3_600,
        on_timeout="approve",
        question="Is this draft good enough?",
    ),
)


def ending(kind: EventType = EventType.COMPLETED, final: Snapshot | None = None) -> Event:
    return Event(event=len(EVENTS) + 1, type=kind, at=AT, data=final or snapshot())


def stream(*events: Event) -> str:
    """The events as the server sends them."""
    return "".join(
        f"id: {event.event}\nevent: {event.type}\ndata: {event.model_dump_json()}\n\n"
        for event in events
    )


DIFF = Diff(
    from_iteration=0,
    to_iteration=1,
    operations=(),
    unified="--- iterations/0\n+++ iterations/1\n@@ -1 +1 @@\n-In order to be short.\n+Short.\n",
)
