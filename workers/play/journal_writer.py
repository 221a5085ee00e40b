"""Writes the journal: steps done, steps under way, judged drafts, and how a refinement ends."""

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Self

from pydantic_core import PydanticSerializationError

from app.contract.events import (
    EventType,
    IterationCompleted,
    StepCompleted,
    StepFailed,
    StepStarted,
    Stopping,
    TextReply,
)
from app.contract.judgement import IssueNote, Usage
from app.contract.limits import Limits, TimeLimit
from app.contract.requests import RefinementRequest
from app.contract.snapshot import Result
from app.contract.statistics import ModelUse, gains_of, insights_of, lost_from, score_gain
from app.contract.status import Status, StopReason, without_text
from app.contract.values import value
from app.contract.waiting import Waiting
from app.store import (
    Addition,
    Entry,
    Fenced,
    Fields,
    Journal,
    Parking,
    StaleLimits,
    State,
    insight_additions,
)
from app.store.prompts import KeptPrompt, PromptKeeper, step_name
from app.store.redis.connection import until_answered
from app.telemetry import metrics
from workers.engine.moves import Judged, Judgement
from workers.engine.reviewing import WHOLE
from workers.play.endings import Ending, best_of, result_of
from workers.play.replay import RecordedStep, Replay, iteration_score, unencodable

log = logging.getLogger(__name__)

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
    """An append failed in a way that waiting does not mend: the claim is left to its lease.

    It says nothing about the refinement, which must not fail because of it.
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
            gaps = judging.result and without_text(judging.result.caveats)
            if gaps and self._has_whole():
                continue  # a part is no better than a text that is whole
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
