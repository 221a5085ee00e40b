"""Lists a tenant's refinements, newest first, by cursor.

Ids are ULIDs, so their order is the order of creation, and a page begins after the id in the
cursor: it does not shift when rows are added, moved or deleted.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import cast

from redis.asyncio import Redis

from app.contract.errors import MalformedHeader
from app.contract.status import Status
from app.store import keys

CHUNK = 500  # ids read in one round trip
CHUNKS = 40  # maximum round trips for one page; after that a page may be short


async def list_ids(
    client: Redis,
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


async def _shortest_first(client: Redis, lists: Sequence[str]) -> list[str]:
    if len(lists) == 1:
        return list(lists)
    async with client.pipeline(transaction=False) as pipeline:
        for name in lists:
            pipeline.zcard(name)
        sizes = await pipeline.execute()
    return [name for _, name in sorted(zip(sizes, lists, strict=True))]


async def _below(client: Redis, name: str, below: str | None, size: int) -> list[str]:
    top = "+" if below is None else f"({below}"
    ids = await client.zrevrangebylex(name, top, "-", start=0, num=size)
    return [refinement_id.decode() for refinement_id in cast("list[bytes]", ids)]


async def _on_all(client: Redis, lists: Sequence[str], ids: list[str]) -> list[str]:
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
