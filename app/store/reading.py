"""Reading one refinement: its snapshot, its request, its journal."""

from collections.abc import Callable
from typing import TypeVar, cast

from redis.asyncio import Redis

from app.contract.errors import RefinementNotFound
from app.contract.events import Event, EventType
from app.contract.snapshot import Snapshot
from app.store import keys
from app.store.codec import decode_models, decode_request
from app.store.rendering import Summary, decoded_event, snapshot_json, stored_event
from app.store.state import StoredEvent, Submitted

PAGE = 1_000
LAST = 2**64 - 1  # the highest number a stream id can hold

T = TypeVar("T")


class Reader:
    """Reads what stands in Redis. `tenant` None reads for a worker, which serves every tenant."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def snapshot(self, tenant: str | None, refinement_id: str) -> Snapshot:
        """Return the refinement as it stands, else RefinementNotFound."""
        return Snapshot.model_validate_json(await self._snapshot_json(tenant, refinement_id))

    async def request(self, tenant: str | None, refinement_id: str) -> Submitted:
        """Return what was submitted, else RefinementNotFound."""
        async with self._client.pipeline(transaction=True) as pipeline:
            pipeline.hget(keys.SUMMARY + refinement_id, "tenant")
            pipeline.hmget(keys.REQUEST + refinement_id, ["request", "models"])
            owner, (request, models) = await pipeline.execute()
        _require_owner(tenant, refinement_id, owner)
        return Submitted(decode_request(request), decode_models(models))

    async def events(
        self, tenant: str | None, refinement_id: str, after: int, limit: int
    ) -> tuple[StoredEvent, ...]:
        """Return at most `limit` events after number `after`, else RefinementNotFound."""
        return await self._entries(tenant, refinement_id, after, limit, stored_event)

    async def decoded_events(
        self, tenant: str | None, refinement_id: str, after: int, limit: int
    ) -> tuple[Event, ...]:
        """Return the same events as `events`, decoded."""
        return await self._entries(tenant, refinement_id, after, limit, decoded_event)

    async def recorded(self, refinement_id: str) -> tuple[Event, ...]:
        """Return the whole journal so far, decoded, else RefinementNotFound."""
        found: list[Event] = []
        while events := await self.decoded_events(None, refinement_id, len(found), PAGE):
            found += events
        return tuple(found)

    async def _entries(
        self,
        tenant: str | None,
        refinement_id: str,
        after: int,
        limit: int,
        read: Callable[[bytes, Summary, bytes], T],
    ) -> tuple[T, ...]:
        async with self._client.pipeline(transaction=True) as pipeline:
            pipeline.hget(keys.SUMMARY + refinement_id, "tenant")
            pipeline.xrange(keys.JOURNAL + refinement_id, min=f"({min(after, LAST)}-0", count=limit)
            owner, entries = await pipeline.execute()
        _require_owner(tenant, refinement_id, owner)
        final = b"{}"
        if entries and EventType(entries[-1][1][b"type"].decode()).is_terminal:
            final = await self._snapshot_json(tenant, refinement_id)
        return tuple(read(entry_id, entry, final) for entry_id, entry in entries)

    async def _snapshot_json(self, tenant: str | None, refinement_id: str) -> bytes:
        stored = await self._client.hgetall(keys.SUMMARY + refinement_id)
        summary = cast("Summary", stored)
        _require_owner(tenant, refinement_id, summary.get(b"tenant"))
        return snapshot_json(refinement_id, summary)


def _require_owner(tenant: str | None, refinement_id: str, owner: bytes | None) -> None:
    if owner is None or tenant not in {None, owner.decode()}:
        raise RefinementNotFound(refinement_id)
