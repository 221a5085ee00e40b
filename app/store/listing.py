"""Which refinements a page of a list has: indexes, bounds of ids, and cursors."""

import asyncio
import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from ulid import ULID

from app.contract.errors import MalformedHeader
from app.contract.snapshot import Selected, Snapshot
from app.contract.status import Status
from app.store import keys
from app.store.committer import Committer
from app.store.state import ID_PREFIX

CHUNK = 500  # ids read in one round trip
CHUNKS = 40  # maximum round trips for one page; after that a page may be short
SKEW = timedelta(seconds=10)
EXAMINED = 100  # refinements that are looked at together where no index tells which ones to show
EXAMINATIONS = 20  # how often for one page


async def list_ids(
    committer: Committer,
    tenant: str,
    status: Status | None,
    metadata: Mapping[str, str],
    wanted: int,
    below: str | None,
    batch: str | None = None,
    lowest: str | None = None,
) -> tuple[list[str], str | None]:
    """Return up to `wanted` ids, newest first, and where to continue if the search stopped early.

    `below` is the id after which to begin, `lowest` the last one that may be found. Several filters
    are intersected: the ids of the shortest list are looked up in the others.
    """
    lists = _lists(tenant, status, metadata, batch)
    shortest, *others = await _shortest_first(committer, lists)
    found: list[str] = []
    for _ in range(CHUNKS):
        size = CHUNK if others else wanted
        ids = await _below(committer, shortest, below, size, lowest)
        found += await _on_all(committer, others, ids)
        if len(found) >= wanted or len(ids) < size:
            return found[:wanted], None
        below = ids[-1]
    return found, below


async def _shortest_first(committer: Committer, lists: Sequence[str]) -> list[str]:
    if len(lists) == 1:
        return list(lists)
    sizes = await asyncio.gather(*(committer.execute("ZCARD", name) for name in lists))
    return [name for _, name in sorted(zip(sizes, lists, strict=True))]


async def _below(
    committer: Committer, name: str, below: str | None, size: int, lowest: str | None
) -> list[str]:
    top = "+" if below is None else f"({below}"
    bottom = "-" if lowest is None else f"[{lowest}"
    ids = await committer.execute("ZREVRANGEBYLEX", name, top, bottom, "LIMIT", 0, size)
    return [refinement_id.decode() for refinement_id in ids]


async def _on_all(committer: Committer, lists: Sequence[str], ids: list[str]) -> list[str]:
    if not lists or not ids:
        return ids
    scores = await asyncio.gather(*(committer.execute("ZMSCORE", name, *ids) for name in lists))
    return [
        refinement_id for refinement_id, *on in zip(ids, *scores, strict=True) if None not in on
    ]


def _lists(
    tenant: str, status: Status | None, metadata: Mapping[str, str], batch: str | None
) -> list[str]:
    lists = [keys.listed_by_metadata(tenant, *pair) for pair in metadata.items()]
    if batch is not None:
        lists.append(keys.listed_by_batch(tenant, batch))
    if status is not None:
        lists.append(keys.listed_by_status(tenant, status))
    return lists or [keys.refinement_list(tenant)]


def bounds_of(selected: Selected, below: str | None) -> tuple[str | None, str | None]:
    """Return the lowest id, and the one below which to begin.

    Ids have the time of submission by the clock of an API process, which may differ a little.
    """
    lowest = _first_id(selected.submitted_from - SKEW) if selected.submitted_from else None
    if selected.submitted_to is not None:
        top = _first_id(selected.submitted_to + SKEW)
        below = top if below is None else min(below, top)
    return lowest, below


def submitted_at(snapshot: Snapshot) -> datetime:
    if snapshot.batch is None:
        return snapshot.created_at
    return ULID.from_str(snapshot.id.removeprefix(ID_PREFIX)).datetime


def _first_id(at: datetime) -> str:
    """Return what no id of that millisecond is below."""
    milliseconds = max(0, round(at.timestamp() * 1000))
    return ID_PREFIX + str(ULID.from_bytes(milliseconds.to_bytes(6, "big") + bytes(10)))


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
