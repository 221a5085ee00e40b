"""The API's side of the store."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import OutOfMemoryError
from redis.exceptions import TimeoutError as RedisTimeoutError

from app.contract.errors import Overloaded, Unavailable
from app.contract.events import Event
from app.contract.limits import Limits, LimitsChange
from app.contract.requests import RefinementRequest
from app.contract.reviews import Review
from app.contract.snapshot import Snapshot, SnapshotPage
from app.contract.status import Status
from app.store.achievements import Achieved, achieved
from app.store.commands import Commands
from app.store.connection import GIVE_UP_S
from app.store.creation import RETRY_AFTER_S, Creation
from app.store.listing import Listing
from app.store.reading import Reader
from app.store.scripts import WORKERS, run
from app.store.state import Created, NewRefinement, StoredEvent

NO_METADATA: Mapping[str, str] = {}


@asynccontextmanager
async def refusals() -> AsyncIterator[None]:
    """Say as a refusal, within two seconds, that Redis is away, too slow or full."""
    try:
        async with asyncio.timeout(GIVE_UP_S):
            yield
    except (RedisTimeoutError, TimeoutError) as error:
        raise Unavailable("Redis did not answer in time", retry_after_s=RETRY_AFTER_S) from error
    except RedisConnectionError as error:
        raise Unavailable("Redis cannot be reached", retry_after_s=RETRY_AFTER_S) from error
    except OutOfMemoryError as error:
        raise Overloaded("the memory of Redis is full", retry_after_s=RETRY_AFTER_S) from error


class Store:
    """What the API may do. Every method raises `Unavailable` when Redis cannot be reached."""

    def __init__(self, client: Redis, creation: Creation, commands: Commands) -> None:
        self._client = client
        self._creation = creation
        self._reader = Reader(client)
        self._listing = Listing(client)
        self._commands = commands

    async def create(self, new: NewRefinement, idempotency_key: str | None) -> Created:
        """Store and queue a refinement in one transaction.

        Raises IdempotencyMismatch, and Overloaded when the queue is full or memory nearly so.
        """
        async with refusals():
            return await self._creation.create(new, idempotency_key)

    async def snapshot(self, tenant: str, refinement_id: str) -> Snapshot:
        """Return the refinement as it stands, else RefinementNotFound."""
        async with refusals():
            return await self._reader.snapshot(tenant, refinement_id)

    async def request(self, tenant: str, refinement_id: str) -> RefinementRequest:
        """Return what was submitted, else RefinementNotFound."""
        async with refusals():
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
        async with refusals():
            return await self._listing.page(
                tenant, status=status, metadata=metadata, limit=limit, cursor=cursor
            )

    async def events(
        self, tenant: str, refinement_id: str, after: int = 0, limit: int = 1_000
    ) -> tuple[StoredEvent, ...]:
        """Return at most `limit` events after number `after`, oldest first, ready to send.

        Raises RefinementNotFound.
        """
        async with refusals():
            return await self._reader.events(tenant, refinement_id, after, limit)

    async def decoded_events(
        self, tenant: str, refinement_id: str, after: int = 0, limit: int = 1_000
    ) -> tuple[Event, ...]:
        """Return the same events as `events`, decoded."""
        async with refusals():
            return await self._reader.decoded_events(tenant, refinement_id, after, limit)

    async def cancel(
        self, tenant: str, refinement_id: str, command_id: str | None = None
    ) -> Snapshot:
        """Cancel it: at once while nobody works on it, else it is `canceling`.

        Raises RefinementNotFound, and Conflict when it has succeeded or failed.
        """
        async with refusals():
            await self._commands.cancel(tenant, refinement_id, command_id)
            return await self._reader.snapshot(tenant, refinement_id)

    async def finish(
        self, tenant: str, refinement_id: str, command_id: str | None = None
    ) -> Snapshot:
        """Let it end with its best draft, as soon as there is one; what is paused is queued.

        Raises RefinementNotFound, and Conflict when it has ended or is being canceled.
        """
        async with refusals():
            await self._commands.finish(tenant, refinement_id, command_id)
            return await self._reader.snapshot(tenant, refinement_id)

    async def review(
        self, tenant: str, refinement_id: str, review: Review, command_id: str | None = None
    ) -> Snapshot:
        """Let it go on with a reviewer's word.

        Raises RefinementNotFound, Conflict unless this review is pending, and IdempotencyMismatch
        for a `command_id` that said something else.
        """
        async with refusals():
            await self._commands.review(tenant, refinement_id, review, command_id)
            return await self._reader.snapshot(tenant, refinement_id)

    async def change(
        self, tenant: str, refinement_id: str, change: LimitsChange, command_id: str | None = None
    ) -> Limits:
        """Return the limits now in force.

        Raises RefinementNotFound, and Conflict when it has ended or is being canceled.
        """
        async with refusals():
            return await self._commands.change(tenant, refinement_id, change, command_id)

    async def erase(self, tenant: str, refinement_id: str) -> None:
        """Delete it and everything derived from it, in any status, else RefinementNotFound."""
        async with refusals():
            await self._commands.erase(tenant, refinement_id)

    async def achieved(self, tenant: str, models: Sequence[str]) -> Mapping[str, Achieved]:
        """Return what each of these models has achieved in the refinements it was drawn for."""
        async with refusals():
            return await achieved(self._client, tenant, models)

    async def aclose(self) -> None:
        """Return when everything that was asked for has been answered."""
        await self._reader.aclose()

    async def ping(self) -> None:
        """Return when Redis answers, else Unavailable."""
        async with refusals():
            await self._client.ping()

    async def workers(self) -> int:
        """Return how many workers gave a sign of life within their lease."""
        async with refusals():
            return int(await run(self._client, WORKERS))
