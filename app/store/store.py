"""The API's side of the store: create, read, list, follow and command refinements."""

import asyncio
import base64
import binascii
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from itertools import islice
from typing import Any, Concatenate, ParamSpec, TypeVar, cast
from uuid import uuid4

from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.client import Pipeline
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import OutOfMemoryError, RedisError, WatchError
from redis.exceptions import TimeoutError as RedisTimeoutError
from ulid import ULID

from app.contract.errors import (
    Conflict,
    HoneError,
    IdempotencyMismatch,
    MalformedHeader,
    Overloaded,
    RefinementNotFound,
    Unavailable,
)
from app.contract.events import Event
from app.contract.limits import Limits, LimitsChange
from app.contract.requests import RefinementRequest
from app.contract.reviews import ReviewDecision
from app.contract.snapshot import Snapshot, SnapshotPage
from app.contract.status import Status
from app.store import keys
from app.store.codec import (
    Summary,
    decode_limits,
    decode_request,
    decode_snapshot,
    decoded_event,
    encode_decision,
    encode_limits,
    encode_metadata,
    encode_queued,
    encode_submitted,
    paired,
    snapshot_json,
    stored_event,
)
from app.store.connection import is_away
from app.store.enqueue import Enqueuer, Queue
from app.store.scripts import (
    CANCEL,
    CHANGE,
    CREATE,
    ERASE,
    EVENTS,
    FINISH,
    REVIEW,
    SNAPSHOT,
    UNPLAYABLE,
    WORKERS,
    Committer,
    LuaScript,
    run,
)
from app.store.state import Created, Job, NewRefinement, StoredEvent, Submitted, UnreadableRecord

CHUNK = 500  # ids read in one round trip
CHUNKS = 40  # maximum round trips for one page; after that a page may be short


async def list_ids(
    client: AsyncRedis,
    tenant: str,
    status: Status | None,
    metadata: Mapping[str, str],
    wanted: int,
    below: str | None,
) -> tuple[list[str], str | None]:
    """Return up to `wanted` ids, newest first, and where to continue if the search stopped early.

    `below` is the id after which to begin. Several filters are intersected: the ids of the shortest
    list are looked up in the others.
    """
    lists = _lists(tenant, status, metadata)
    shortest, *others = await _shortest_first(client, lists)
    found: list[str] = []
    for _ in range(CHUNKS):
        size = CHUNK if others else wanted
        ids = await _below(client, shortest, below, size)
        found += await _on_all(client, others, ids)
        if len(found) >= wanted or len(ids) < size:
            return found[:wanted], None
        below = ids[-1]
    return found, below


async def _shortest_first(client: AsyncRedis, lists: Sequence[str]) -> list[str]:
    if len(lists) == 1:
        return list(lists)
    async with client.pipeline(transaction=False) as pipeline:
        for name in lists:
            pipeline.zcard(name)
        sizes = await pipeline.execute()
    return [name for _, name in sorted(zip(sizes, lists, strict=True))]


async def _below(client: AsyncRedis, name: str, below: str | None, size: int) -> list[str]:
    top = "+" if below is None else f"({below}"
    ids = await client.zrevrangebylex(name, top, "-", start=0, num=size)
    return [refinement_id.decode() for refinement_id in cast("list[bytes]", ids)]


async def _on_all(client: AsyncRedis, lists: Sequence[str], ids: list[str]) -> list[str]:
    if not lists or not ids:
        return ids
    async with client.pipeline(transaction=False) as pipeline:
        for name in lists:
            pipeline.zmscore(name, ids)
        scores = await pipeline.execute()
    return [
        refinement_id for refinement_id, *on in zip(ids, *scores, strict=True) if None not in on
    ]


def _lists(tenant: str, status: Status | None, metadata: Mapping[str, str]) -> list[str]:
    lists = [keys.listed_by_metadata(tenant, *pair) for pair in metadata.items()]
    if status is not None:
        lists.append(keys.listed_by_status(tenant, status))
    return lists or [keys.listed(tenant)]


def encode_cursor(tenant: str, refinement_id: str) -> str:
    """Return an opaque cursor to the position after a refinement in a tenant's lists."""
    return base64.urlsafe_b64encode(f"1 {tenant} {refinement_id}".encode()).decode().rstrip("=")


def decode_cursor(tenant: str, cursor: str) -> str:
    """Return the id in a cursor, else raise MalformedHeader."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        version, owner, refinement_id = base64.b64decode(padded, b"-_", True).decode().split(" ")
    except (ValueError, binascii.Error):
        raise MalformedHeader("invalid cursor: use the next_cursor of a page") from None
    if (version, owner) != ("1", tenant):
        raise MalformedHeader("invalid cursor: use the next_cursor of a page")
    return refinement_id


ACHIEVED_FIELDS = ("ended", "passed", "priced", "cost_usd")
LAST = 2**64 - 1  # the highest number a stream id can hold
REMEMBERED_S = 24 * 3600  # how long an idempotency key is stored
FULL = 0.8  # the share of maxmemory from which new refinements are rejected
RETRY_AFTER_S = 5
MEASURED_FOR_S = 1.0  # maximum age of a measurement of the memory

PROBE_MS = 1_000

NO_METADATA: Mapping[str, str] = {}

ScriptArguments = tuple[str | bytes | int, ...]
T = TypeVar("T")
P = ParamSpec("P")

log = logging.getLogger(__name__)


@asynccontextmanager
async def refusals(timeout_s: float) -> AsyncIterator[None]:
    """Raise Unavailable or Overloaded if Redis is unreachable, full, or slower than `timeout_s`.

    Unavailable also stands for what only a server of a later release can read: ask again, while
    servers are being replaced.
    """
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except (RedisTimeoutError, TimeoutError) as error:
        raise Unavailable("Redis timed out", retry_after_s=RETRY_AFTER_S) from error
    except RedisConnectionError as error:
        raise Unavailable("Redis is unreachable", retry_after_s=RETRY_AFTER_S) from error
    except UnreadableRecord as error:
        raise Unavailable(
            f"a later release of Hone wrote it, and this server cannot read {error}",
            retry_after_s=RETRY_AFTER_S,
        ) from error
    except RedisError as error:
        # In a transaction the code stands inside an EXECABORT.
        if isinstance(error, OutOfMemoryError) or "OOM" in str(error):
            raise Overloaded("the memory of Redis is full", retry_after_s=RETRY_AFTER_S) from error
        if not is_away(error):
            raise
        raise Unavailable("Redis refuses writes", retry_after_s=RETRY_AFTER_S) from error


def refusing(
    method: "Callable[Concatenate[Store, P], Awaitable[T]]",
) -> "Callable[Concatenate[Store, P], Coroutine[Any, Any, T]]":
    """Wrap a method of the store in `refusals` with the timeout of the store."""

    @wraps(method)
    async def refused(self: "Store", /, *args: P.args, **kwargs: P.kwargs) -> T:
        async with refusals(self.timeout_s):
            return await method(self, *args, **kwargs)

    return refused


@dataclass(frozen=True, slots=True)
class Achieved:
    """What a model has achieved in the refinements that it was drawn for and that have ended.

    One hash per tenant holds the sums; append.lua adds to them. `cost_usd` is the total cost of the
    `priced` ones: those that judged a draft and whose cost is known. One that failed at once cost
    little, which is no measure of the cost of an answer.
    """

    ended: int = 0
    passed: int = 0
    priced: int = 0
    cost_usd: float = 0.0

    @property
    def mean_cost_usd(self) -> float | None:
        """The mean cost of one refinement; None if there is none."""
        return self.cost_usd / self.priced if self.priced else None


class Store:
    """The operations of the API. Every method raises `Unavailable` if Redis is unreachable.

    Another tenant's refinement is RefinementNotFound. A command that comes too late raises
    Conflict.
    """

    def __init__(
        self,
        client: AsyncRedis,
        committer: Committer,
        executor: Executor,
        creation: "Creation",
        enqueuer: Enqueuer,
        lease_ms: int,
        timeout_s: float,
    ) -> None:
        self.timeout_s = timeout_s
        self._client = client
        self._committer = committer
        self._executor = executor
        self._creation = creation
        self._enqueuer = enqueuer
        self._lease_ms = lease_ms

    @refusing
    async def create(self, new: NewRefinement, idempotency_key: str | None) -> Created:
        """Store and queue a refinement in one transaction.

        Returns the one that the same key and body created within 24 hours, if there is one. Raises
        IdempotencyMismatch, and Overloaded if the queue is full or memory nearly full. Concurrent
        calls may exceed the bound of the queue.
        """
        loop = asyncio.get_running_loop()
        create = self._creation.create
        return await loop.run_in_executor(self._executor, create, new, idempotency_key)

    @refusing
    async def snapshot(self, tenant: str, refinement_id: str) -> Snapshot:
        """Return the current snapshot, else raise RefinementNotFound."""
        return await self._snapshot(tenant, refinement_id)

    @refusing
    async def request(self, tenant: str, refinement_id: str) -> RefinementRequest:
        """Return the submitted request, else raise RefinementNotFound."""
        async with self._client.pipeline(transaction=True) as pipeline:
            pipeline.hget(keys.SUMMARY + refinement_id, "tenant")
            pipeline.hget(keys.REQUEST + refinement_id, "request")
            owner, request = await pipeline.execute()
        if owner is None or tenant != owner.decode():
            raise RefinementNotFound(refinement_id)
        return decode_request(request)

    @refusing
    async def page(
        self,
        tenant: str,
        *,
        status: Status | None = None,
        metadata: Mapping[str, str] = NO_METADATA,
        limit: int = 20,
        cursor: str | None = None,
    ) -> SnapshotPage:
        """Return one page, newest first; raise MalformedHeader for an invalid cursor.

        With several filters that few refinements meet, a page may be short and have a next one.
        """
        below = None if cursor is None else decode_cursor(tenant, cursor)
        ids, last_seen = await list_ids(self._client, tenant, status, metadata, limit + 1, below)
        has_more = last_seen is not None or len(ids) > limit
        if len(ids) > limit:
            ids, last_seen = ids[:limit], ids[limit - 1]
        return SnapshotPage(
            data=await self._snapshots(ids),
            has_more=has_more,
            next_cursor=encode_cursor(tenant, last_seen) if last_seen is not None else None,
        )

    @refusing
    async def events(
        self, tenant: str, refinement_id: str, after: int = 0, limit: int = 1_000
    ) -> tuple[StoredEvent, ...]:
        """Return at most `limit` events after number `after`, oldest first, ready to send.

        Raises RefinementNotFound.
        """
        return await self._entries(tenant, refinement_id, after, limit, stored_event)

    @refusing
    async def decoded_events(
        self, tenant: str, refinement_id: str, after: int = 0, limit: int = 1_000
    ) -> tuple[Event, ...]:
        """Return the same events as `events`, decoded, without those of unknown types."""
        found = await self._entries(tenant, refinement_id, after, limit, decoded_event)
        return tuple(event for event in found if event is not None)

    @refusing
    async def cancel(self, tenant: str, refinement_id: str) -> Snapshot:
        """Cancel it: immediately if no worker holds it, else it becomes `canceling`.

        Raises RefinementNotFound, and Conflict if it has succeeded or failed.
        """
        await self._give(CANCEL, tenant, refinement_id, uuid4().hex)
        return await self._snapshot(tenant, refinement_id)

    @refusing
    async def finish(
        self, tenant: str, refinement_id: str, command_id: str | None = None
    ) -> Snapshot:
        """End it with its best draft: journal `refinement.stopping` as soon as there is one.

        A paused one is queued, and ends when it is claimed. Raises RefinementNotFound, and
        Conflict if it has ended or is being canceled.
        """
        args = (command_id or uuid4().hex, self._lease_ms)
        await self._give(FINISH, tenant, refinement_id, *args)
        return await self._snapshot(tenant, refinement_id)

    @refusing
    async def review(
        self, tenant: str, refinement_id: str, review: ReviewDecision, command_id: str | None = None
    ) -> Snapshot:
        """Journal a reviewer's decision and queue the refinement.

        Raises RefinementNotFound, Conflict unless this review is pending, and IdempotencyMismatch
        if the last decision had this `command_id` and other content.
        """
        args = (
            command_id or uuid4().hex,
            review.path or "",
            encode_decision(review),
            self._lease_ms,
        )
        await self._give(REVIEW, tenant, refinement_id, *args)
        return await self._snapshot(tenant, refinement_id)

    @refusing
    async def change(
        self, tenant: str, refinement_id: str, change: LimitsChange, command_id: str | None = None
    ) -> Limits:
        """Change limits and return those now in force.

        Raises RefinementNotFound, and Conflict if it has ended or is being canceled.
        """
        command_id = command_id or uuid4().hex
        while True:
            key = keys.SUMMARY + refinement_id
            known = await self._client.hmget(key, ["limits_seq", "limits"])
            if None in known:
                raise RefinementNotFound(refinement_id)
            seq, stored = cast("list[bytes]", known)
            limits = change.applied_to(decode_limits(stored))
            args = (command_id, seq, encode_limits(limits))
            if await self._give(CHANGE, tenant, refinement_id, *args):
                return limits
            # Another client has changed them in the meantime.

    @refusing
    async def erase(self, tenant: str, refinement_id: str) -> None:
        """Delete it and everything derived from it, in any status, or raise RefinementNotFound."""
        await self._give(ERASE, tenant, refinement_id)

    @refusing
    async def achieved(self, tenant: str, models: Sequence[str]) -> Mapping[str, Achieved]:
        """Return what each of these models has achieved in the refinements it was drawn for."""
        names = [f"{field} {model}" for model in models for field in ACHIEVED_FIELDS]
        values = iter(await self._client.hmget(keys.achieved(tenant), names))
        return {model: _achieved(list(islice(values, len(ACHIEVED_FIELDS)))) for model in models}

    @refusing
    async def workers(self) -> int:
        """Return the number of workers with a heartbeat within their lease.

        Raises Unavailable also when Redis refuses writes, since no work is possible then.
        """
        await self._client.set(keys.PROBE, 1, px=PROBE_MS)
        return int(await run(self._client, WORKERS))

    @refusing
    async def unplayable(self) -> tuple[str, ...]:
        """Return the versions that refinements need and no running worker plays.

        Workers put such refinements back; `LATER` stands for those that they could not read.
        """
        found = await run(self._client, UNPLAYABLE)
        return tuple(sorted(version.decode() for version in found))

    async def _snapshot(self, tenant: str, refinement_id: str) -> Snapshot:
        summary = paired(await self._read(SNAPSHOT, refinement_id, tenant))
        return decode_snapshot(refinement_id, summary)

    async def _snapshots(self, ids: Sequence[str]) -> tuple[Snapshot, ...]:
        async with self._client.pipeline(transaction=False) as pipeline:
            for refinement_id in ids:
                pipeline.hgetall(keys.SUMMARY + refinement_id)
            summaries = await pipeline.execute()
        return tuple(
            decode_snapshot(refinement_id, summary)
            for refinement_id, summary in zip(ids, summaries, strict=True)
            if summary  # else it was erased a moment ago
        )

    async def _entries(
        self,
        tenant: str,
        refinement_id: str,
        after: int,
        limit: int,
        read: Callable[[bytes, Summary, bytes], T],
    ) -> tuple[T, ...]:
        entries, summary = await self._read(EVENTS, refinement_id, tenant, min(after, LAST), limit)
        final = snapshot_json(refinement_id, paired(summary)) if summary else b"{}"
        return tuple(read(entry_id, paired(fields), final) for entry_id, fields in entries)

    async def _read(self, script: LuaScript, refinement_id: str, *args: str | int) -> Sequence[Any]:
        reply = await self._committer.run(script, refinement_id, *args)
        if reply is None:
            raise RefinementNotFound(refinement_id)
        return cast("Sequence[Any]", reply)

    async def _give(
        self, script: LuaScript, tenant: str, refinement_id: str, *args: str | bytes | int
    ) -> bool:
        """Send a command; return False if another command has changed the limits first."""
        answer = await run(self._client, script, refinement_id, tenant, *args)
        if isinstance(answer, int):
            await self._enqueue(Job(refinement_id, f"{refinement_id}-{answer}"))
            return True
        code, _, detail = answer.decode().partition(" ")
        if error := _refusal(code, refinement_id, detail):
            raise error
        return bool(code == "OK")

    async def _enqueue(self, job: Job) -> None:
        """Enqueue a job at once; if that fails, an idle worker will enqueue it.

        The command has taken effect, so no error here may reach the client.
        """
        try:
            async with asyncio.timeout(self.timeout_s / 2):  # the client waits for the answer
                await self._enqueuer.enqueue([job])
        except (RedisError, TimeoutError) as error:
            log.warning("%s: a worker will enqueue its job: %s", job.refinement_id, error)


def _refusal(code: str, refinement_id: str, detail: str) -> HoneError | None:
    match code:
        case "MISSING":
            return RefinementNotFound(refinement_id)
        case "ENDED":
            return Conflict(f"{refinement_id} has ended or is being canceled")
        case "UNASKED":
            return Conflict(f"{refinement_id} is not waiting for a review")
        case "OTHER":
            return Conflict(f"{refinement_id} is waiting for another review, {detail}")
        case "MISMATCH":
            return IdempotencyMismatch("this Idempotency-Key was used with another review")
    return None


def _achieved(values: Sequence[bytes | str | None]) -> Achieved:
    ended, passed, priced, cost_usd = (value or 0 for value in values)
    return Achieved(int(ended), int(passed), int(priced), float(cost_usd))


class Creation:
    """Writes the record and the queue entry in one transaction.

    Store calls it in threads, because RQ is synchronous.
    """

    def __init__(
        self,
        queue: Queue,
        client: Redis,
        *,
        queue_max: int,
        lease_ms: int,
        retention_ms: int,
    ) -> None:
        self._queue = queue
        self._client = client
        self._queue_max = queue_max
        self._lease_ms = lease_ms
        self._retention_ms = retention_ms
        self._memory = Memory(client)

    def create(self, new: NewRefinement, idempotency_key: str | None) -> Created:
        """Return the new refinement, or the one that the same key and body created.

        Raises redis errors, IdempotencyMismatch and Overloaded.
        """
        refinement_id = f"ref_{ULID()}"
        record = None if idempotency_key is None else keys.idempotency(new.tenant, idempotency_key)
        args = self._args(refinement_id, new, record)
        while True:
            try:
                with self._client.pipeline(transaction=True) as pipeline:
                    return self._attempt(pipeline, refinement_id, new, record, args)
            except WatchError:  # another client used the same key, or the connection was lost
                continue

    def _attempt(
        self,
        pipeline: Pipeline,
        refinement_id: str,
        new: NewRefinement,
        record: str | None,
        args: ScriptArguments,
    ) -> Created:
        if record is not None:
            pipeline.watch(record)  # type: ignore[no-untyped-call]
            known = pipeline.get(record)
            if known is not None:
                return _replayed(refinement_id, new, cast("bytes", known))
        self._require_room()
        pipeline.multi()
        self._queue.enqueue(refinement_id, f"{refinement_id}-1", pipeline)
        # The text, not its hash: a script that Redis has lost must not fail here.
        pipeline.eval(CREATE.text, 0, *args)
        pipeline.execute()
        return Created(refinement_id, replayed=False)

    def _require_room(self) -> None:
        if self._queue.length(self._client) >= self._queue_max:
            raise Overloaded(
                f"{self._queue_max} refinements are waiting; try again later",
                retry_after_s=RETRY_AFTER_S,
            )
        if self._memory.used_share() >= FULL:
            raise Overloaded(
                "the memory of Redis is nearly full; try again when refinements have expired",
                retry_after_s=RETRY_AFTER_S,
            )

    def _args(self, refinement_id: str, new: NewRefinement, record: str | None) -> ScriptArguments:
        request, models = encode_submitted(Submitted(new.request, new.models))
        remembered: ScriptArguments = ("", 0)
        if record is not None:
            remembered = (f"{new.body_sha256} {refinement_id}", REMEMBERED_S)
        fields: ScriptArguments = (
            "strategy",
            new.request.strategy.kind,
            "limits",
            encode_limits(new.limits),
            "retention_ms",
            self._retention_ms,
            "engine_version",
            new.engine_version,
        )
        return (
            refinement_id,
            new.tenant,
            self._lease_ms,
            request,
            models,
            encode_queued(new.queued),
            *remembered,
            encode_metadata(new.request.metadata),
            *fields,
            *(() if new.parent is None else ("parent", new.parent)),
            *(() if new.queued.draw is None else ("drawn", new.queued.draw.picked)),
            *(() if record is None else ("idempotency", record)),
        )


def _replayed(refinement_id: str, new: NewRefinement, record: bytes) -> Created:
    body_sha256, _, first_id = record.decode().partition(" ")
    if body_sha256 != new.body_sha256:
        raise IdempotencyMismatch("this Idempotency-Key was used with another body within 24 hours")
    # The id of this call: the transaction succeeded, and only its answer was lost.
    return Created(first_id, replayed=first_id != refinement_id)


class Memory:
    """Measures the memory of Redis, at most once a second."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._share = 0.0
        self._measured_at = float("-inf")

    def used_share(self) -> float:
        """Return the share of maxmemory in use, 0 without a maxmemory."""
        now = time.monotonic()
        if now - self._measured_at > MEASURED_FOR_S:
            info = self._client.info("memory")
            bound = info["maxmemory"]
            self._share = info["used_memory"] / bound if bound else 0.0
            self._measured_at = now
        return self._share
