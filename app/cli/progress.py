"""How far a refinement is, as its events tell it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from app.contract.events import (
    Changed,
    Event,
    EventType,
    IterationCompleted,
    Queued,
    StepCompleted,
    StepFailed,
    StepStarted,
    Stopping,
)
from app.contract.judgement import CriterionScore, Usage
from app.contract.reviews import Paused, Reviewed
from app.contract.snapshot import Snapshot
from app.contract.status import Status

NOTHING = Usage()
OF_ITERATION = re.compile(r"iterations/(\d+)(?:/|\Z)")

STATUS_AFTER: Mapping[EventType, Status] = {
    EventType.QUEUED: Status.QUEUED,
    EventType.STARTED: Status.RUNNING,
    EventType.RESUMED: Status.RUNNING,
    EventType.PAUSED: Status.PAUSED,
    EventType.REVIEWED: Status.QUEUED,
    EventType.CANCELING: Status.CANCELING,
    EventType.COMPLETED: Status.SUCCEEDED,
    EventType.FAILED: Status.FAILED,
    EventType.CANCELED: Status.CANCELED,
}


@dataclass(frozen=True)
class Row:
    """One iteration: what it consumed and, once judged, its scores."""

    usage: Usage = NOTHING
    score: float | None = None
    scores: tuple[CriterionScore, ...] = ()
    passed: bool | None = None

    @property
    def is_judged(self) -> bool:
        """Whether its critique is in."""
        return self.passed is not None


@dataclass(frozen=True)
class Progress:
    """What is known after some events; `final` is the last snapshot once it has ended."""

    status: Status = Status.QUEUED
    strategy: str = ""
    models: Mapping[str, str] = field(default_factory=dict)
    threshold: float = 1.0
    max_iterations: int = 1
    phase: tuple[str, ...] = ()
    stopping: str = ""
    asked: Paused | None = None
    asked_until: datetime | None = None
    rows: Mapping[int, Row] = field(default_factory=dict)
    usage: Usage = NOTHING
    final: Snapshot | None = None

    def after(self, event: Event) -> "Progress":
        """What is known once `event` is known too; the events come in order."""
        data = event.data
        now = replace(self, status=STATUS_AFTER.get(event.type, self.status))
        if isinstance(data, Snapshot):
            return replace(now, final=data, phase=(), usage=data.usage, asked=None)
        if isinstance(data, Paused):
            until = event.at + timedelta(seconds=data.timeout_s)
            now = replace(now, asked=data, asked_until=until, phase=())
        if isinstance(data, Queued):
            now = replace(now, strategy=data.strategy, models=data.models)
        if isinstance(data, Queued | Changed | IterationCompleted):
            limits = data.limits
            now = replace(now, threshold=limits.threshold, max_iterations=limits.max_iterations)
        if isinstance(data, StepStarted | StepCompleted | StepFailed):
            now = replace(now, phase=data.next).with_rows(*data.next)
        if isinstance(data, StepCompleted | StepFailed):
            now = now.having_used(data.key, data.usage)
        if isinstance(data, Stopping):
            status = Status.QUEUED if now.status is Status.PAUSED else now.status
            now = replace(now, stopping=data.reason, status=status)
        if isinstance(data, Reviewed | Stopping):
            now = replace(now, asked=None)
        return now.judged(data) if isinstance(data, IterationCompleted) else now

    def with_rows(self, *keys: str) -> "Progress":
        """With a row for each iteration that one of the steps belongs to."""
        found = [int(match[1]) for key in keys if (match := OF_ITERATION.match(key))]
        return replace(self, rows={number: Row() for number in found} | dict(self.rows))

    def having_used(self, key: str, usage: Usage) -> "Progress":
        """With a step's usage added, to its iteration's and to the whole."""
        whole = replace(self, usage=self.usage + usage)
        if (match := OF_ITERATION.match(key)) is None:
            return whole
        number = int(match[1])
        row = self.rows.get(number, Row())
        return whole.with_row(number, replace(row, usage=row.usage + usage))

    def judged(self, data: IterationCompleted) -> "Progress":
        """With an iteration's scores; those of an inner search are not shown."""
        if data.path != f"iterations/{data.iteration}":
            return self
        row = replace(
            self.rows.get(data.iteration, Row()),
            score=data.score,
            scores=data.scores,
            passed=data.passed,
        )
        return self.with_row(data.iteration, row)

    def with_row(self, number: int, row: Row) -> "Progress":
        """With one iteration's row replaced."""
        return replace(self, rows=dict(self.rows) | {number: row})
