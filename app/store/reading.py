"""Reading one refinement: its snapshot, its request, its journal."""

from collections.abc import Callable
from typing import TypeVar, cast

from redis.asyncio import Redis

from app.contract.errors import RefinementNotFound
from app.contract.events import Event
from app.contract.requests import RefinementRequest
from app.contract.snapshot import Snapshot
from app.store import keys
from app.store.codec import decode_request
from app.store.rendering import Summary, decoded_event, has_ended, snapshot_json, stored_event
from app.store.state import StoredEvent

LAST = 2**64 - 1  # the highest number a stream id can hold

T = TypeVar("T")


class Reader:
    """Reads what stands in Redis; another tenant's refinement is not found."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def snapshot(self, tenant: str, refinement_id: str) -> Snapshot:
        """Return the refinement as it stands, else RefinementNotFound."""
        return Snapshot.model_validate_json(await self._snapshot_json(tenant, refinement_id))

    async def request(self, tenant: str, refinement_id: str) -> RefinementRequest:
        """Return what was submitted, else RefinementNotFound."""
        async with self._client.pipeline(transaction=True) as pipeline:
            pipeline.hget(keys.SUMMARY + refinement_id, "tenant")
            pipeline.hget(keys.REQUEST + refinement_id, "request")
            owner, request = await pipeline.execute()
        _require_owner(tenant, refinement_id, owner)
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

    async def _entries(
        self,
        tenant: str,
        refinement_id: str,
        after: int,
        limit: int,
        read: Callable[[bytes, Summary, bytes], T],
    ) -> tuple[T, ...]:
        async with self._client.pipeline(transaction=False) as pipeline:
            pipeline.hget(keys.SUMMARY + refinement_id, "tenant")
            pipeline.xrange(keys.JOURNAL + refinement_id, min=f"({min(after, LAST)}-0", count=limit)
            owner, entries = await pipeline.execute()
        _require_owner(tenant, refinement_id, owner)
        final = b"{}"
        if has_ended(entries):
            final = await self._snapshot_json(tenant, refinement_id)
        return tuple(read(entry_id, entry, final) for entry_id, entry in entries)

    async def _snapshot_json(self, tenant: str, refinement_id: str) -> bytes:
        stored = await self._client.hgetall(keys.SUMMARY + refinement_id)
        summary = cast("Summary", stored)
        _require_owner(tenant, refinement_id, summary.get(b"tenant"))
        return snapshot_json(refinement_id, summary)


def _require_owner(tenant: str, refinement_id: str, owner: bytes | None) -> None:
    if owner is None or tenant != owner.decode():
        raise RefinementNotFound(refinement_id)
