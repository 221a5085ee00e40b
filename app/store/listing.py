"""Listing a tenant's refinements, newest first, by cursor.

Ids are ULIDs, so their order is the order of creation, and a page begins after the id the cursor
names: rows that are added, moved or deleted meanwhile shift nothing.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import cast

from redis.asyncio import Redis

from app.contract.errors import MalformedHeader
from app.contract.snapshot import Snapshot, SnapshotPage
from app.contract.status import Status
from app.store import keys
from app.store.codec import snapshot_json

CHUNK = 500  # ids looked at in one round trip
CHUNKS = 40  # round trips for one page at most; after that a page may be shorter than asked for


class Listing:
    """Reads pages. Several filters are intersected: the shortest list is read, the others asked."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def page(
        self,
        tenant: str,
        *,
        status: Status | None,
        metadata: Mapping[str, str],
        limit: int,
        cursor: str | None,
    ) -> SnapshotPage:
        """Return up to `limit` (>= 1) refinements; MalformedHeader for a cursor not ours.

        With several filters that seldom meet a page may be short and still have a next one.
        """
        below = None if cursor is None else decode_cursor(tenant, cursor)
        found, last_seen = await self._find(_lists(tenant, status, metadata), limit + 1, below)
        has_more = last_seen is not None or len(found) > limit
        if len(found) > limit:
            found, last_seen = found[:limit], found[limit - 1]
        return SnapshotPage(
            data=await self._snapshots(found),
            has_more=has_more,
            next_cursor=encode_cursor(tenant, last_seen) if last_seen is not None else None,
        )

    async def _find(
        self, lists: Sequence[str], wanted: int, below: str | None
    ) -> tuple[list[str], str | None]:
        """Return ids that are on every list, and where to go on if the search was cut short."""
        shortest, *others = await self._shortest_first(lists)
        found: list[str] = []
        for _ in range(CHUNKS):
            size = CHUNK if others else wanted
            ids = await self._below(shortest, below, size)
            found += await self._on_all(others, ids)
            if len(found) >= wanted or len(ids) < size:
                return found[:wanted], None
            below = ids[-1]
        return found, below

    async def _shortest_first(self, lists: Sequence[str]) -> list[str]:
        if len(lists) == 1:
            return list(lists)
        async with self._client.pipeline(transaction=False) as pipeline:
            for name in lists:
                pipeline.zcard(name)
            sizes = await pipeline.execute()
        return [name for _, name in sorted(zip(sizes, lists, strict=True))]

    async def _below(self, name: str, below: str | None, size: int) -> list[str]:
        top = "+" if below is None else f"({below}"
        ids = await self._client.zrevrangebylex(name, top, "-", start=0, num=size)
        return [refinement_id.decode() for refinement_id in cast("list[bytes]", ids)]

    async def _on_all(self, lists: Sequence[str], ids: list[str]) -> list[str]:
        if not lists or not ids:
            return ids
        async with self._client.pipeline(transaction=False) as pipeline:
            for name in lists:
                pipeline.zmscore(name, ids)
            scores = await pipeline.execute()
        return [
            refinement_id for refinement_id, *on in zip(ids, *scores, strict=True) if None not in on
        ]

    async def _snapshots(self, ids: Sequence[str]) -> tuple[Snapshot, ...]:
        async with self._client.pipeline(transaction=False) as pipeline:
            for refinement_id in ids:
                pipeline.hgetall(keys.SUMMARY + refinement_id)
            summaries = await pipeline.execute()
        return tuple(
            Snapshot.model_validate_json(snapshot_json(refinement_id, summary))
            for refinement_id, summary in zip(ids, summaries, strict=True)
            if summary  # else it was erased a moment ago
        )


def _lists(tenant: str, status: Status | None, metadata: Mapping[str, str]) -> list[str]:
    lists = [keys.listed_by_metadata(tenant, *pair) for pair in metadata.items()]
    if status is not None:
        lists.append(keys.listed_by_status(tenant, status))
    return lists or [keys.listed(tenant)]


def encode_cursor(tenant: str, refinement_id: str) -> str:
    """Return an opaque cursor to what comes after a refinement in a tenant's lists."""
    return base64.urlsafe_b64encode(f"1 {tenant} {refinement_id}".encode()).decode().rstrip("=")


def decode_cursor(tenant: str, cursor: str) -> str:
    """Return the id a cursor stands for, else MalformedHeader."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        version, owner, refinement_id = base64.b64decode(padded, b"-_", True).decode().split(" ")
    except (ValueError, binascii.Error):
        raise MalformedHeader("this cursor cannot be read; take it from next_cursor") from None
    if (version, owner) != ("1", tenant):
        raise MalformedHeader("this cursor cannot be read; take it from next_cursor")
    return refinement_id
