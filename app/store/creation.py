"""Creates refinements and enqueues their jobs.

One script writes the record and the queue entry of a new refinement, and decides whether it may.
What waits to be played for the first time, or again after a command, stands in a line per tenant
unless a slot is free for it (`stand_in_line` in queue.lua); take_jobs.lua alone decides who is
next. The RQ queue holds what was admitted, what continues after its worker was lost, and what has a
permit or must end. `Creation` and `Enqueuer` feed both by the commands that RQ itself recorded; the
caller need not know which.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Protocol

from pydantic_core import to_json
from ulid import ULID, LaxMonotonicPolicy, ULIDGenerator

from app.contract.errors import (
    FieldError,
    HoneError,
    IdempotencyMismatch,
    InvalidRequest,
    Overloaded,
    QuotaExceeded,
    RefinementNotFound,
)
from app.contract.values import value
from app.store.redis import keys
from app.store.redis.codec import (
    decode_snapshot,
    encode_continued_from,
    encode_limits,
    encode_metadata,
    encode_queued,
    encode_submitted,
    encode_webhook,
    paired,
)
from app.store.redis.committer import Committer
from app.store.redis.connection import RETRY_AFTER_S
from app.store.redis.keys import Word, script_words
from app.store.redis.scripts import CREATE, DEADLINE_MS, ENQUEUE, FULL
from app.store.sealing import NO_SEALER, Sealer
from app.store.state import ID_PREFIX, Accepted, Job, NewRefinement, Submitted, beginning_of, coded
from app.store.statistics import drawn_in
from app.store.stub import with_stub

REMEMBERED_S = 24 * 3600  # how long an idempotency key is stored
RETRY_AFTER_BYTES_S = 60  # retention ends some day, and an erasure is not foreseen
DAY_S = 86_400
QUOTAS_OF_A_DAY = {"tokens_per_day": "tokens", "cost_usd_per_day": "dollars"}
QUOTAS = {"queued": "queued", "in_flight": "in flight"}
TIME_ERRORS = {
    b"PAST": ("/deadline", "the deadline is not in the future"),
    b"FAR": ("/deadline", "the deadline is more than 30 days away"),
    b"LATE": ("/start_after", "start_after is more than 30 days away"),
}
MEASURED_FOR_S = 1.0  # maximum age of a measurement of Redis

Clock = Callable[[], float]
"""Seconds since any moment, from a clock that is never set."""


class ServerStatus:
    """The memory and the time of Redis, measured at most once a second.

    Redis TIME is estimated from a local clock. An estimate that a measurement allows is kept, so
    that a slow answer does not disturb it.
    """

    def __init__(self, committer: Committer, clock: Clock) -> None:
        self.used_share = 0.0  # share of maxmemory; 0 without a maxmemory
        self.policy = ""
        self._committer = committer
        self._clock = clock
        self._ahead_s = 0.0  # of the local clock
        self._measured_at = float("-inf")
        self._measuring: asyncio.Task[None] | None = None

    def time_ms(self) -> int:
        """Return Redis TIME, in milliseconds since 1970."""
        return int((self._clock() + self._ahead_s) * 1000)

    async def measure(self) -> None:
        """Measure unless that was done within a second; callers share a measurement."""
        if self._measuring is None and self._clock() - self._measured_at > MEASURED_FOR_S:
            self._measuring = asyncio.create_task(self._measure())
        if self._measuring is not None:
            await asyncio.shield(self._measuring)

    async def _measure(self) -> None:
        try:
            sent_at = self._clock()
            (seconds, microseconds), info = await asyncio.gather(
                self._committer.execute("TIME"), self._committer.execute("INFO", "memory")
            )
            self._measured_at = self._clock()
            now = seconds + microseconds / 1e6
            self._ahead_s = min(max(self._ahead_s, now - self._measured_at), now - sent_at)
            bound = info["maxmemory"]
            self.used_share = info["used_memory"] / bound if bound else 0.0
            self.policy = info["maxmemory_policy"]
        finally:
            self._measuring = None


class Queue(Protocol):
    """The part of the RQ queue that the store uses; the queue is in a higher layer."""

    @property
    def key(self) -> str:
        """The list in Redis that holds the waiting jobs."""

    def commands(
        self, refinement_id: str, job_id: str, *, is_first: bool = False
    ) -> Sequence[Sequence[Word]]:
        """Return the commands that enqueue one job, to be executed in one transaction."""


@value(slots=True)
class BatchPlace:
    """Which request of which batch a refinement is made of; `position` counts from 1."""

    batch_id: str
    position: int
    custom_id: str

    def fields(self) -> tuple[Word, ...]:
        """Return names and values of the summary that it gives a refinement."""
        custom_id = to_json(self.custom_id)
        return "batch", self.batch_id, "position", self.position, "custom_id", custom_id


class Creation:
    """Writes the record and the queue entry by one script, which also decides whether it may."""

    def __init__(
        self,
        queue: Queue,
        committer: Committer,
        clock: Clock,
        *,
        queue_max: int,
        lease_ms: int,
        retention_ms: int,
        sealer: Sealer = NO_SEALER,
        cell: int | None = None,
    ) -> None:
        self.sealer = sealer
        self.cell = cell
        self._queue = queue
        self.committer = committer
        self._queue_max = queue_max
        self.lease_ms = lease_ms
        self.retention_ms = retention_ms
        self.server = ServerStatus(committer, clock)
        self._ids = ULIDGenerator(self.server.time_ms, policy=LaxMonotonicPolicy())

    async def create(self, new: NewRefinement, idempotency_key: str | None) -> Accepted:
        """Return the new refinement, or the one that the same key and body created.

        Raises redis errors, IdempotencyMismatch, Overloaded, and InvalidRequest for a deadline that
        has passed or is more than 30 days away.
        """
        await self.server.measure()
        reply = await self.committer.submit(CREATE, *self._args(new, idempotency_key))
        if isinstance(reply, bytes):
            raise self._refusal(reply)
        first_id, is_replayed, summary = reply
        refinement_id = first_id.decode()
        if not summary:
            raise RefinementNotFound(refinement_id)
        fields = paired(summary)
        if b"stub" in fields:  # an earlier submission has been archived
            fields = with_stub(fields)
        return Accepted(decode_snapshot(refinement_id, fields), bool(is_replayed))

    def _refusal(self, code: bytes) -> HoneError:
        if code == b"MISMATCH":
            return IdempotencyMismatch(
                "this Idempotency-Key was used with another body within 24 hours"
            )
        if code in TIME_ERRORS:
            return _unusable_time(code)
        if code.startswith(b"QUOTA"):
            _, quota, most = code.decode().split()
            if quota in QUOTAS_OF_A_DAY:
                return spent_up(quota, most, self.server.time_ms())
            if quota == "bytes_stored":
                detail = f"the refinements of this tenant may take {most} bytes; erase some"
                return QuotaExceeded(detail, retry_after_s=RETRY_AFTER_BYTES_S)
            detail = f"this tenant may have {most} refinements {QUOTAS[quota]} at a time"
            return QuotaExceeded(detail, retry_after_s=RETRY_AFTER_S)
        if code == b"FULL":
            detail = f"{self._queue_max} refinements are waiting; try again later"
        else:
            detail = "the memory of Redis is nearly full; try again when refinements have expired"
        return Overloaded(detail, retry_after_s=RETRY_AFTER_S)

    def new_ulid(self) -> str:
        """Return an id by the time of Redis, greater than those before it.

        Of several cells it has the number of this one.
        """
        ulid = self._ids.generate()
        return str(ulid if self.cell is None else ULID.from_int(coded(int(ulid), self.cell)))

    async def is_memory_full(self) -> bool:
        """Return whether no more may be stored."""
        await self.server.measure()
        return self.server.used_share >= FULL

    def staged(self, new: NewRefinement, place: BatchPlace) -> tuple[str, tuple[Word, ...]]:
        """Return a new id, and what batch_stage.lua stores so that the refinement can be created.

        Raises InvalidRequest for a deadline that has passed, and a time more than 30 days away.
        """
        refinement_id, deadline = (
            f"{ID_PREFIX}{self.new_ulid()}",
            _milliseconds_of(new.request.deadline),
        )
        left_ms = deadline - self.server.time_ms() if deadline else DEADLINE_MS
        if not 0 < left_ms <= DEADLINE_MS:
            raise _unusable_time(b"PAST" if left_ms <= 0 else b"FAR")
        start_after = _milliseconds_of(new.request.start_after) or 0
        if start_after - self.server.time_ms() > DEADLINE_MS:
            raise _unusable_time(b"LATE")
        summary = [
            word.decode() if isinstance(word, bytes) else str(word)
            for word in (*self._fields(new), *place.fields())
        ]
        staged = {
            "deadline": str(deadline or ""),
            "metadata": encode_metadata(new.request.metadata).decode(),
            "queued": encode_queued(new.queued).decode(),
            "begins": beginning_of(new.request),
            "summary": summary,
        }
        return refinement_id, (
            *encode_submitted(Submitted(new.request, new.models, new.prompt_nonce)),
            new.prompt_nonce,
            self.sealer.seal(new.request.secrets(), refinement_id),
            to_json(staged),
        )

    def _args(self, new: NewRefinement, idempotency_key: str | None) -> list[Word]:
        refinement_id = f"{ID_PREFIX}{self.new_ulid()}"
        fields, deadline = self._fields(new), _milliseconds_of(new.request.deadline)
        commands = self._queue.commands(refinement_id, f"{refinement_id}-1")
        layout = self.committer.layout
        return [
            refinement_id,
            new.tenant,
            self.lease_ms,
            layout.name(self._queue.key),
            self._queue_max,
            new.request.priority,
            int(self.server.used_share >= FULL),
            _milliseconds_of(new.request.start_after) or "",
            deadline or "",
            "" if idempotency_key is None else keys.idempotency(new.tenant, idempotency_key),
            REMEMBERED_S,
            new.body_sha256,
            *encode_submitted(Submitted(new.request, new.models, new.prompt_nonce)),
            encode_queued(new.queued),
            encode_metadata(new.request.metadata),
            new.prompt_nonce,
            beginning_of(new.request),
            self.sealer.seal(new.request.secrets(), refinement_id),
            len(fields),
            *fields,
            *script_words(commands, layout),
        ]

    def _fields(self, new: NewRefinement) -> tuple[Word, ...]:
        return (
            "excerpt",
            to_json(new.request.excerpt),
            "strategy",
            new.request.strategy.kind,
            "limits",
            encode_limits(new.limits),
            "retention_ms",
            self.retention_ms if (kept_s := new.request.retention_s) is None else kept_s * 1000,
            "engine_version",
            new.engine_version,
            *(() if new.api_key is None else ("api_key", new.api_key)),
            *(() if new.request.store else ("store", 0)),
            *(("priority", "batch") if new.request.priority == "batch" else ()),
            *(
                ()
                if (at := new.request.start_after) is None
                else ("start_after", _milliseconds_of(at) or 0)
            ),
            *encode_continued_from(new.continued_from),
            *(("origin", new.origin) if new.origin else ()),
            *(() if (hook := new.request.webhook) is None else ("webhook", encode_webhook(hook))),
            *(() if (drawn := drawn_in(new)) is None else ("drawn", drawn)),
        )


def spent_up(quota: str, most: object, now_ms: int) -> QuotaExceeded:
    """Return the error of a tenant that has used up a quota of the day."""
    detail = f"this tenant may spend {most} {QUOTAS_OF_A_DAY[quota]} a day"
    return QuotaExceeded(detail, retry_after_s=DAY_S - now_ms // 1000 % DAY_S)


def _unusable_time(code: bytes) -> InvalidRequest:
    pointer, detail = TIME_ERRORS[code]
    return InvalidRequest.at(FieldError(pointer=pointer, detail=detail))


def _milliseconds_of(deadline: datetime | None) -> int | None:
    return None if deadline is None else round(deadline.timestamp() * 1000)


class Enqueuer:
    """Enqueues jobs, each in one step with the record that it is in the queue."""

    def __init__(self, queue: Queue, committer: Committer, lease_ms: int) -> None:
        self._queue = queue
        self._committer = committer
        self._lease_ms = lease_ms

    def submit(self, job: Job) -> asyncio.Future[Any]:
        """Send a job to Redis before all later requests; enqueuing one twice is harmless."""
        commands = self._queue.commands(job.refinement_id, job.job_id, is_first=job.is_first)
        layout = self._committer.layout
        words = script_words(commands, layout)
        place = (layout.name(self._queue.key), int(job.is_first))
        return self._committer.submit(ENQUEUE, job.refinement_id, self._lease_ms, *place, *words)

    async def enqueue(self, jobs: Sequence[Job]) -> None:
        """Return when every job is enqueued, or raise a redis error."""
        await asyncio.gather(*map(self.submit, jobs))
