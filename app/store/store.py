"""What the models that were drawn have achieved: counted by the append that ends a refinement.

One hash per tenant, with fields such as `passed openai:gpt-5-mini`. append.lua writes it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar, cast
from uuid import uuid4

from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import OutOfMemoryError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from app.contract.errors import (
    Conflict,
    HoneError,
    IdempotencyMismatch,
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
    decoded_event,
    encode_limits,
    encode_said,
    paired,
    snapshot_json,
    stored_event,
)
from app.store.committer import Committer
from app.store.creation import RETRY_AFTER_S, Creation
from app.store.enqueue import Enqueuer
from app.store.listing import Listing
from app.store.scripts import (
    CANCEL,
    CHANGE,
    ERASE,
    EVENTS,
    FINISH,
    REVIEW,
    SNAPSHOT,
    WORKERS,
    LuaScript,
    run,
)
from app.store.state import Created, Job, NewRefinement, StoredEvent

FIELDS = ("ended", "passed", "priced", "cost_usd")


@dataclass(frozen=True, slots=True)
class Achieved:
    """Sums over the refinements that a model was drawn for and that succeeded or failed.

    `cost_usd` is what the `priced` ones cost together: those that judged a draft and whose cost is
    known. One that failed at once cost little, and says nothing about the price of an answer.
    """

    ended: int = 0
    passed: int = 0
    priced: int = 0
    cost_usd: float = 0.0

    @property
    def mean_cost_usd(self) -> float | None:
        """The mean cost of one refinement; None before there is any."""
        return self.cost_usd / self.priced if self.priced else None


async def achieved(client: Redis, tenant: str, models: Sequence[str]) -> Mapping[str, Achieved]:
    """Return what each of these models has achieved for a tenant."""
    names = [f"{field} {model}" for model in models for field in FIELDS]
    values = iter(await client.hmget(keys.achieved(tenant), names))
    return {model: _read(list(islice(values, len(FIELDS)))) for model in models}


def _read(values: Sequence[bytes | str | None]) -> Achieved:
    ended, passed, priced, cost_usd = (value or 0 for value in values)
    return Achieved(int(ended), int(passed), int(priced), float(cost_usd))


LAST = 2**64 - 1  # the highest number a stream id can hold

T = TypeVar("T")


class Reader:
    """Reads what stands in Redis; another tenant's refinement is not found."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._committer = Committer(client)

    async def snapshot(self, tenant: str, refinement_id: str) -> Snapshot:
        """Return the refinement as it stands, else RefinementNotFound."""
        summary = paired(await self._read(SNAPSHOT, refinement_id, tenant))
        return Snapshot.model_validate_json(snapshot_json(refinement_id, summary))

    async def request(self, tenant: str, refinement_id: str) -> RefinementRequest:
        """Return what was submitted, else RefinementNotFound."""
        async with self._client.pipeline(transaction=True) as pipeline:
            pipeline.hget(keys.SUMMARY + refinement_id, "tenant")
            pipeline.hget(keys.REQUEST + refinement_id, "request")
            owner, request = await pipeline.execute()
        if owner is None or tenant != owner.decode():
            raise RefinementNotFound(refinement_id)
        return decode_request(request)

    async def events(
        self, tenant: str, refinement_id: str, after: int, limit: int
    ) -> tuple[StoredEvent, ...]:
        """Return at most `limit` events after number `after`, else RefinementNotFound."""
        return await self._entries(tenant, refinement_id, after, limit, stored_event)

    async def decoded_events(
        self, tenant: str, refinement_id: str, after: int, limit: int
    ) -> tuple[Event, ...]:
        """Return the same events as `events`, decoded."""
        return await self._entries(tenant, refinement_id, after, limit, decoded_event)

    async def aclose(self) -> None:
        """Return when everything that was asked for has been answered."""
        await self._committer.aclose()

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


log = logging.getLogger(__name__)


class Commands:
    """Gives commands. Every one raises RefinementNotFound, and Conflict when it comes too late."""

    def __init__(
        self, client: Redis, enqueuer: Enqueuer, lease_ms: int, post_timeout_s: float
    ) -> None:
        self._client = client
        self._enqueuer = enqueuer
        self._lease_ms = lease_ms
        self._post_timeout_s = post_timeout_s  # less than a client is kept waiting for an answer

    async def cancel(self, tenant: str, refinement_id: str, command_id: str | None) -> None:
        """Cancel at once what waits; what runs is `canceling`."""
        await self._give(CANCEL, tenant, refinement_id, command_id or uuid4().hex)

    async def finish(self, tenant: str, refinement_id: str, command_id: str | None) -> None:
        """Journal `refinement.stopping` if a draft was judged, else ask for it once one is.

        What is paused is queued, and ends when it is claimed.
        """
        args = (command_id or uuid4().hex, self._lease_ms)
        await self._give(FINISH, tenant, refinement_id, *args)

    async def review(
        self, tenant: str, refinement_id: str, review: ReviewDecision, command_id: str | None
    ) -> None:
        """Journal a reviewer's word and queue what waited for it.

        Conflict also when it is not paused, or another review is pending than the one that is
        meant; IdempotencyMismatch when the last review had this id and said something else.
        """
        args = (command_id or uuid4().hex, review.path or "", encode_said(review), self._lease_ms)
        await self._give(REVIEW, tenant, refinement_id, *args)

    async def change(
        self, tenant: str, refinement_id: str, change: LimitsChange, command_id: str | None
    ) -> Limits:
        """Return the limits now in force."""
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
            # Somebody else changed them in between.

    async def erase(self, tenant: str, refinement_id: str) -> None:
        """Delete it and everything derived from it, in any status."""
        await self._give(ERASE, tenant, refinement_id)

    async def _give(
        self, script: LuaScript, tenant: str, refinement_id: str, *args: str | bytes | int
    ) -> bool:
        """Return False when somebody else was quicker."""
        answer = await run(self._client, script, refinement_id, tenant, *args)
        if isinstance(answer, int):
            await self._post(Job(refinement_id, f"{refinement_id}-{answer}"))
            return True
        code, _, detail = answer.decode().partition(" ")
        if error := _refusal(code, refinement_id, detail):
            raise error
        return bool(code == "OK")

    async def _post(self, job: Job) -> None:
        """Enqueue a job at once; one that is lost on the way is missed by an idle worker.

        The command was taken: whatever happens here must not look like a refusal.
        """
        try:
            async with asyncio.timeout(self._post_timeout_s):
                await self._enqueuer.post([job])
        except (RedisError, TimeoutError) as error:
            log.warning("%s: its job will be posted by a worker: %s", job.refinement_id, error)


def _refusal(code: str, refinement_id: str, detail: str) -> HoneError | None:
    match code:
        case "MISSING":
            return RefinementNotFound(refinement_id)
        case "ENDED":
            return Conflict(f"{refinement_id} has ended or is being canceled")
        case "UNASKED":
            return Conflict(f"{refinement_id} is not waiting for a review")
        case "OTHER":
            return Conflict(f"{refinement_id} is waiting for the review {detail}, not for this one")
        case "MISMATCH":
            return IdempotencyMismatch("this Idempotency-Key was used with another review")
    return None


NO_METADATA: Mapping[str, str] = {}


@asynccontextmanager
async def refusals(timeout_s: float) -> AsyncIterator[None]:
    """Say as a refusal, within `timeout_s`, that Redis is away, too slow or full."""
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except (RedisTimeoutError, TimeoutError) as error:
        raise Unavailable("Redis did not answer in time", retry_after_s=RETRY_AFTER_S) from error
    except RedisConnectionError as error:
        raise Unavailable("Redis cannot be reached", retry_after_s=RETRY_AFTER_S) from error
    except OutOfMemoryError as error:
        raise Overloaded("the memory of Redis is full", retry_after_s=RETRY_AFTER_S) from error


class Store:
    """What the API may do. Every method raises `Unavailable` when Redis cannot be reached."""

    def __init__(
        self, client: Redis, creation: Creation, commands: Commands, timeout_s: float
    ) -> None:
        self._client = client
        self._timeout_s = timeout_s
        self._creation = creation
        self._reader = Reader(client)
        self._listing = Listing(client)
        self._commands = commands

    async def create(self, new: NewRefinement, idempotency_key: str | None) -> Created:
        """Store and queue a refinement in one transaction.

        Raises IdempotencyMismatch, and Overloaded when the queue is full or memory nearly so.
        """
        async with refusals(self._timeout_s):
            return await self._creation.create(new, idempotency_key)

    async def snapshot(self, tenant: str, refinement_id: str) -> Snapshot:
        """Return the refinement as it stands, else RefinementNotFound."""
        async with refusals(self._timeout_s):
            return await self._reader.snapshot(tenant, refinement_id)

    async def request(self, tenant: str, refinement_id: str) -> RefinementRequest:
        """Return what was submitted, else RefinementNotFound."""
        async with refusals(self._timeout_s):
            return await self._reader.request(tenant, refinement_id)

    async def page(
        self,
        tenant: str,
        *,
        status: Status | None = None,
        metadata: Mapping[str, str] = NO_METADATA,
        limit: int = 20,
        cursor: str | None = None,
    ) -> SnapshotPage:
        """Return one page, newest first; MalformedHeader for a cursor that cannot be read.

        With several filters that seldom meet a page may be short and still have a next one.
        """
        async with refusals(self._timeout_s):
            return await self._listing.page(
                tenant, status=status, metadata=metadata, limit=limit, cursor=cursor
            )

    async def events(
        self, tenant: str, refinement_id: str, after: int = 0, limit: int = 1_000
    ) -> tuple[StoredEvent, ...]:
        """Return at most `limit` events after number `after`, oldest first, ready to send.

        Raises RefinementNotFound.
        """
        async with refusals(self._timeout_s):
            return await self._reader.events(tenant, refinement_id, after, limit)

    async def decoded_events(
        self, tenant: str, refinement_id: str, after: int = 0, limit: int = 1_000
    ) -> tuple[Event, ...]:
        """Return the same events as `events`, decoded."""
        async with refusals(self._timeout_s):
            return await self._reader.decoded_events(tenant, refinement_id, after, limit)

    async def cancel(
        self, tenant: str, refinement_id: str, command_id: str | None = None
    ) -> Snapshot:
        """Cancel it: at once while nobody works on it, else it is `canceling`.

        Raises RefinementNotFound, and Conflict when it has succeeded or failed.
        """
        async with refusals(self._timeout_s):
            await self._commands.cancel(tenant, refinement_id, command_id)
            return await self._reader.snapshot(tenant, refinement_id)

    async def finish(
        self, tenant: str, refinement_id: str, command_id: str | None = None
    ) -> Snapshot:
        """Let it end with its best draft, as soon as there is one; what is paused is queued.

        Raises RefinementNotFound, and Conflict when it has ended or is being canceled.
        """
        async with refusals(self._timeout_s):
            await self._commands.finish(tenant, refinement_id, command_id)
            return await self._reader.snapshot(tenant, refinement_id)

    async def review(
        self, tenant: str, refinement_id: str, review: ReviewDecision, command_id: str | None = None
    ) -> Snapshot:
        """Let it go on with a reviewer's word.

        Raises RefinementNotFound, Conflict unless this review is pending, and IdempotencyMismatch
        for a `command_id` that said something else.
        """
        async with refusals(self._timeout_s):
            await self._commands.review(tenant, refinement_id, review, command_id)
            return await self._reader.snapshot(tenant, refinement_id)

    async def change(
        self, tenant: str, refinement_id: str, change: LimitsChange, command_id: str | None = None
    ) -> Limits:
        """Return the limits now in force.

        Raises RefinementNotFound, and Conflict when it has ended or is being canceled.
        """
        async with refusals(self._timeout_s):
            return await self._commands.change(tenant, refinement_id, change, command_id)

    async def erase(self, tenant: str, refinement_id: str) -> None:
        """Delete it and everything derived from it, in any status, else RefinementNotFound."""
        async with refusals(self._timeout_s):
            await self._commands.erase(tenant, refinement_id)

    async def achieved(self, tenant: str, models: Sequence[str]) -> Mapping[str, Achieved]:
        """Return what each of these models has achieved in the refinements it was drawn for."""
        async with refusals(self._timeout_s):
            return await achieved(self._client, tenant, models)

    async def aclose(self) -> None:
        """Return when everything that was asked for has been answered."""
        await self._reader.aclose()

    async def ping(self) -> None:
        """Return when Redis answers, else Unavailable."""
        async with refusals(self._timeout_s):
            await self._client.ping()

    async def workers(self) -> int:
        """Return how many workers gave a sign of life within their lease."""
        async with refusals(self._timeout_s):
            return int(await run(self._client, WORKERS))
