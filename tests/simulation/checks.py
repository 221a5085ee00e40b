"""What must hold after a run, whatever happened in it, by the journals and summaries in Redis."""

from collections import Counter
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from app.contract.events import (
    Changed,
    Event,
    EventType,
    IterationCompleted,
    Queued,
    Resumed,
    Started,
    StepCompleted,
    StepFailed,
)
from app.contract.judgement import Usage
from app.contract.requests import RefinementRequest
from app.contract.snapshot import Snapshot
from app.contract.statistics import gains_of, insights_of, lost_from
from app.contract.status import Status
from app.service.iterations import JournalContradiction
from app.store.packing import record_of
from app.store.redis import keys
from app.store.redis.codec import (
    decode_request,
    decode_snapshot,
    decode_sums,
    decoded_event,
    paired,
    snapshot_json,
)
from app.store.redis.scripts import END
from tests.simulation.network import RealRedis
from tests.simulation.world import CallStart, SimulatedSubmission, SimulatedWorld
from tests.workers.refinement_harness import TENANT
from tests.workers.test_kills import record
from workers.play.journal import replay_of

T = TypeVar("T")

LIVING = {"away", "busy", "down", "duplicates", "lost_jobs", "refuse"}
"""Faults during which every worker keeps what it holds: nothing is taken over, nothing repeated."""


@dataclass
class Stored:
    """One refinement as it is in Redis."""

    id: str
    summary: dict[bytes, bytes]
    events: tuple[Event, ...]
    request: RefinementRequest

    @classmethod
    def read(cls, redis: RealRedis, refinement_id: str) -> "Stored | None":
        """Return it, or None if it is not there."""
        _, fields = redis.ask(b"HGETALL", (keys.SUMMARY + refinement_id).encode())
        if not fields:
            return None
        summary = dict(paired(fields))
        _, entries = redis.ask(b"XRANGE", (keys.JOURNAL + refinement_id).encode(), b"-", b"+")
        _, request = redis.ask(b"HGETALL", (keys.REQUEST + refinement_id).encode())
        record = record_of([(it, paired(entry)) for it, entry in entries], paired(request))
        final = snapshot_json(refinement_id, summary)
        decoded = [decoded_event(*it, final) for it in record.entries]
        events = tuple(it for it in decoded if it is not None)
        return cls(refinement_id, summary, events, decode_request(record.request[b"request"]))

    def number(self, name: bytes) -> int:
        """Return a field that is a number."""
        return int(self.summary[name])

    @property
    def steps(self) -> list[StepCompleted | StepFailed]:
        """The steps in the journal, in order."""
        return [it.data for it in self.events if isinstance(it.data, StepCompleted | StepFailed)]

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot of now."""
        return decode_snapshot(self.id, self.summary)

    def record(self) -> dict[str, Any]:
        """Return what it came to, without what differs between runs."""
        harness: Any = _AsHarness(self)
        told = _finished(record(harness, self.id))
        del told["priority"]  # the simulation chooses it by the number of the submission
        return told


class _AsHarness:
    def __init__(self, stored: Stored) -> None:
        self.store = self
        self._stored = stored

    async def snapshot(self, _refinement_id: str) -> Snapshot:
        return self._stored.snapshot

    async def events(self, _refinement_id: str) -> tuple[Event, ...]:
        return self._stored.events

    async def request(self, _tenant: str, _refinement_id: str) -> RefinementRequest:
        return self._stored.request


def _finished(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it waits for something")


def broken_promises(world: SimulatedWorld, expected: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Say what does not hold after a run; `expected` is what each kind comes to undisturbed."""
    yield from world.broken
    for submission in world.submissions.values():
        stored = Stored.read(world.server.redis, submission.id)
        if stored is None:
            yield from _missing(world, submission)
            continue
        told = f"{submission.id} ({submission.kind})"
        try:
            yield from (f"{told}: {it}" for it in _broken(world, submission, stored, expected))
        except JournalContradiction as found:
            yield f"{told}: its journal contradicts itself: {found}"
    left = []
    for kept in (keys.PARKED, keys.LINE):
        left += world.server.redis.ask(b"KEYS", (kept + "*").encode())[1]
    if left and not world.broken:
        yield f"everything has ended, but {left} is left"
    _, counted = world.server.redis.ask(b"GET", keys.LOW_PRIORITY.encode())
    if int(counted or 0) != 0 and not world.broken and "lost_jobs" not in world.faults:
        yield f"everything has ended, but {counted.decode()} of low priority are counted"
    yield from _sums(world)
    if world.faults <= LIVING:
        repeated = [key for key, count in _claims_of(world).items() if len(count) > 1]
        if repeated:
            yield f"calls were repeated although every worker lived: {repeated[:3]}"


def _sums(world: SimulatedWorld) -> Iterator[str]:
    """Say whether what journals say of endings, calls, tokens and gains was not counted once.

    What was erased may be counted, too.
    """
    if world.broken:
        return
    redis = world.server.redis
    stored = [it for id_ in world.submissions if (it := Stored.read(redis, id_)) is not None]
    spent = sum((it.snapshot.usage for it in stored), Usage())
    expected = [len(stored), spent.calls, spent.input_tokens, spent.output_tokens]
    expected += [sum(of) for of in zip(*map(_gained, stored), strict=True)] or [0] * 3
    counted = [0.0] * len(expected)
    for name, numbers in _stored_sums(redis, "usage"):
        endings, *use = numbers[:4]
        counted = _plus(counted, [0 if name[-1:] != b" " else endings, *use, 0, 0, 0])
    for _, numbers in _stored_sums(redis, "insights"):
        counted = _plus(counted, [0, 0, 0, 0, *numbers[:3]])
    erased = len(world.submissions) - len(stored)
    differences = [of - known for of, known in zip(counted, expected, strict=True)]
    if min(differences) < 0 or differences[0] > erased or (not erased and max(differences) > 0):
        yield f"endings, calls, tokens and gains are {expected}, but {counted} were counted"


def _gained(stored: Stored) -> list[float]:
    """Return the numbers of cases that a refinement adds to all groups of insights."""
    if stored.snapshot.status is not Status.SUCCEEDED:
        return [0] * 3
    request, replay, result = stored.request, replay_of(stored.events), stored.snapshot.result
    path = result.path if result else None
    gains = gains_of(replay.judgements, replay.paid, path, lost_from(result))
    named = {criterion.name for rubric in request.rubrics() for criterion in rubric}
    of_groups = insights_of(gains, request.strategy.kind, replay.spent, named).values()
    return [sum(of) for of in zip(*(sums[:3] for sums in of_groups), strict=True)] or [0] * 3


def _stored_sums(redis: RealRedis, of: str) -> Iterator[tuple[bytes, list[float]]]:
    for day in redis.ask(b"KEYS", (keys.STATISTICS + f":{of}:*").encode())[1]:
        for name, numbers in paired(redis.ask(b"HGETALL", day)[1]).items():
            yield name, decode_sums(numbers)


def _plus(these: list[float], others: list[float]) -> list[float]:
    return [a + b for a, b in zip(these, others, strict=True)]


def _claims_of(world: SimulatedWorld) -> dict[tuple[str, str], list[CallStart]]:
    calls: dict[tuple[str, str], list[CallStart]] = {}
    for call in world.calls:
        calls.setdefault((call.refinement_id, call.key), []).append(call)
    return calls


def _missing(world: SimulatedWorld, submission: SimulatedSubmission) -> Iterator[str]:
    if submission.command == "erase":
        _, left = world.server.redis.ask(b"KEYS", f"*{submission.id}*".encode())
        left = [key for key in left if not key.startswith(keys.ERASED.encode())]
        for index in (keys.DUE, keys.WAITING, keys.DEADLINES, keys.refinement_list(TENANT)):
            _, score = world.server.redis.ask(b"ZSCORE", index.encode(), submission.id.encode())
            left += [] if score is None else [index]
        if left:
            yield f"{submission.id} was erased, but {left} is left"
    elif "amnesia" not in world.faults:
        yield f"{submission.id} is gone"


def _broken(
    world: SimulatedWorld,
    submission: SimulatedSubmission,
    stored: Stored,
    expected: dict[str, dict[str, Any]],
) -> Iterator[str]:
    yield from _journal(stored)
    yield from _summary(world, stored)
    yield from _limits(stored)
    yield from _calls(world, stored)
    snapshot = stored.snapshot
    if snapshot.error is not None and snapshot.error.code == "internal_error":
        yield f"it failed: {snapshot.error}"
    is_poisoned = snapshot.error is not None and snapshot.error.code == "poisoned"
    if is_poisoned and world.disturbances < 3:
        yield "it is poisoned, although three workers were not lost"
    if submission.accepted and "amnesia" not in world.faults:
        yield from _command(submission, stored, snapshot, is_poisoned=is_poisoned)
    if not submission.command and not is_poisoned and snapshot.status.is_terminal:
        found = stored.record() if _once(stored) else {}
        wanted = expected[submission.kind]
        differing = [it for it in {**wanted, **found} if wanted.get(it) != found.get(it)]
        if found and differing:
            shown = {it: (wanted.get(it), found.get(it)) for it in differing[:2]}
            yield f"its record differs from the undisturbed one: {str(shown)[:300]}"


def _once(stored: Stored) -> bool:
    return all(count == 1 for count in Counter(it.key for it in stored.steps).values())


def _journal(stored: Stored) -> Iterator[str]:
    numbers = [it.event for it in stored.events]
    if numbers != [*range(1, len(numbers) + 1)]:
        yield f"the numbers of its entries are {numbers}"
    for key, count in Counter(it.key for it in stored.steps).items():
        if count > 1:
            yield f"step {key} is in the journal {count} times"
    iterations = [it.data for it in stored.events if isinstance(it.data, IterationCompleted)]
    for path, count in Counter((it.path, it.score_from) for it in iterations).items():
        if count > 1:
            yield f"{path} was judged {count} times"
    tokens = [it.data.token for it in stored.events if isinstance(it.data, Started | Resumed)]
    if tokens != [*range(1, len(tokens) + 1)]:
        yield f"its tokens are {tokens}"
    stops = [it for it in stored.events if it.type is EventType.STOPPING]
    if len(stops) > 1:
        yield "refinement.stopping is in the journal twice"
    ends = [it.event for it in stored.events if it.type.is_terminal]
    if ends and ends != numbers[-1:]:
        yield f"entries {ends} are terminal, and the last entry is {numbers[-1]}"


def _summary(world: SimulatedWorld, stored: Stored) -> Iterator[str]:
    snapshot, tokens = stored.snapshot, [Started, Resumed]
    last = stored.events[-1]
    if stored.number(b"last_event") != last.event:
        yield f"last_event is {stored.number(b'last_event')}, the last entry is {last.event}"
    claims = sum(isinstance(it.data, tuple(tokens)) for it in stored.events)
    if stored.number(b"token") != claims:
        yield f"the token is {stored.number(b'token')} after {claims} claims"
    if snapshot.status.is_terminal and END[snapshot.status] is not last.type:
        yield f"it is {snapshot.status}, but its last entry is {last.type}"
    spent = sum((it.usage for it in stored.steps), Usage())
    if snapshot.usage.model_copy(update={"seconds": 0}) != spent.model_copy(update={"seconds": 0}):
        yield f"its usage is {snapshot.usage}, but its steps used {spent}"
    iterations = [it.data for it in stored.events if isinstance(it.data, IterationCompleted)]
    scores = {it.path: it.score for it in iterations}
    if {it.path: it.score for it in snapshot.scores} != scores:
        yield f"its scores are {snapshot.scores}, but those of its journal {scores}"
    if iterations and snapshot.best is None:
        yield "it judged a draft but has no best one"
    if snapshot.status.is_terminal and iterations and snapshot.result is None:
        yield "it judged a draft but has no result"
    yield from _lists(world, stored, snapshot)


def _lists(world: SimulatedWorld, stored: Stored, snapshot: Snapshot) -> Iterator[str]:
    for status in Status:
        index = keys.listed_by_status(TENANT, status)
        _, score = world.server.redis.ask(b"ZSCORE", index.encode(), stored.id.encode())
        if (score is not None) != (status is snapshot.status):
            yield f"it is {snapshot.status}, and on the list of {status}: {score is not None}"
    if snapshot.status.is_terminal and any(
        it in stored.summary for it in (b"holder", b"review", b"parked")
    ):
        yield "it has ended, but has a holder, a review or is parked"


def _limits(stored: Stored) -> Iterator[str]:
    limits = None
    for event in stored.events:
        match event.data:
            case Queued() | Changed():
                limits = event.data.limits
            case IterationCompleted() if event.data.limits != limits:
                yield f"{event.data.path} was judged under limits that were not in force"


def _calls(world: SimulatedWorld, stored: Stored) -> Iterator[str]:
    calls = [it for it in world.calls if it.refinement_id == stored.id]
    done = {
        it.data.key: it.event
        for it in stored.events
        if isinstance(it.data, StepCompleted | StepFailed)
    }
    if "amnesia" in world.faults:
        return  # tokens and entries have the numbers of others that were lost
    for (key, token, worker), count in Counter(
        (it.key, it.token, it.worker) for it in calls
    ).items():
        if count > 1:
            yield f"{worker} called {key} {count} times under token {token}"
    last = stored.events[-1]
    for call in calls:
        if call.is_current and done.get(call.key, last.event + 1) <= call.last_event:
            yield f"{call.worker} called {call.key} although its reply is in the journal"
        is_late = last.type.is_terminal and call.last_event >= last.event
        if is_late and call.is_current and not world.faults & SLOW:
            yield f"{call.worker} called {call.key} after the end"


SLOW = {"busy", "stall"}
"""Faults that separate a worker's append from the call that follows it."""


def _command(
    submission: SimulatedSubmission, stored: Stored, snapshot: Snapshot, *, is_poisoned: bool
) -> Iterator[str]:
    match submission.command:
        case "cancel" if snapshot.status is not Status.CANCELED:
            yield f"a cancel was accepted, but it is {snapshot.status}"
        case "finish" if snapshot.status is not Status.SUCCEEDED and not is_poisoned:
            yield f"a finish was accepted, but it is {snapshot.status}"
        case "change":
            changes = sum(isinstance(it.data, Changed) for it in stored.events)
            if changes != 1:
                yield f"one change was accepted, but the journal has {changes}"
        case "erase":
            yield "it was erased, but is there"
