"""Reading one refinement: its snapshot, its request, its journal.

Reads are scripts that go together like writes do: when one append wakes hundreds of watchers, they
cost one pipeline and no connection each.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from redis.asyncio import Redis

from app.contract.errors import RefinementNotFound
from app.contract.events import Event
from app.contract.requests import RefinementRequest
from app.contract.snapshot import Snapshot
from app.store import keys
from app.store.codec import decode_request
from app.store.committer import Committer
from app.store.rendering import Summary, decoded_event, paired, snapshot_json, stored_event
from app.store.scripts import EVENTS, SNAPSHOT, Script
from app.store.state import StoredEvent

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

    async def _read(self, script: Script, refinement_id: str, *args: str | int) -> Sequence[Any]:
        reply = await self._committer.run(script, refinement_id, *args)
        if reply is None:
            raise RefinementNotFound(refinement_id)
        return cast("Sequence[Any]", reply)
