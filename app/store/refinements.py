"""Reads refinements: snapshots, requests, lists page by page, journals and prompts."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import compress

from ulid import ULID

from app.contract.errors import NotStored, RefinementNotFound
from app.contract.events import Event
from app.contract.requests import RefinementRequest
from app.contract.snapshot import EVERYTHING, Selected, Snapshot, SnapshotPage
from app.contract.status import Status
from app.store.archive import Archive, ArchivedRecord
from app.store.archive_transfer import read_archived, whole_summary
from app.store.packing import EndedRecord, Entries, packed_record, with_unpacked
from app.store.prompts import KeptPrompt, decode_prompts, known_texts
from app.store.redis import keys
from app.store.redis.codec import (
    ENDED_STATUSES,
    Summary,
    decode_cursor,
    decode_request,
    decode_snapshot,
    decoded_event,
    encode_cursor,
    ended_as,
    ends,
    number_of,
    snapshot_json,
    stored_event,
)
from app.store.redis.committer import Committer, replies_in_order
from app.store.redis.connection import refusing
from app.store.redis.scripts import SEARCH
from app.store.sealing import Sealer
from app.store.searching import Sought, shown_texts, stored_texts
from app.store.state import ID_PREFIX, StoredEvent
from app.store.stub import with_stub

NO_METADATA: Mapping[str, str] = {}
OWNED = ("tenant", "erased_at")
REQUESTED = (b"request", b"secrets")
ENDED_FIELDS = ("tenant", "erased_at", "status", "last_event", "ended_event")
LAST = 2**64 - 1  # the highest number a stream id can hold

CHUNK = 500  # ids read in one round trip
SOUGHT_AT_ONCE = 2_000  # ids whose signatures one script compares, in about 3 ms
CHUNKS = 50  # maximum round trips for one page; after that a page may be short
DECODED = 200  # events of a journal that are decoded in one turn
SKEW_MS = 10_000
EXAMINED = 100  # refinements that are looked at together where no index tells which ones to show
EXAMINATIONS = 20  # how often for one page


async def _list_ids(
    committer: Committer,
    tenant: str,
    status: Status | None,
    metadata: Mapping[str, str],
    wanted: int,
    below: str | None,
    batch: str | None = None,
    lowest: str | None = None,
    sought: Sought | None = None,
) -> tuple[list[str], str | None]:
    """Return up to `wanted` ids, newest first, and where to continue if the search stopped early.

    `below` is the id after which to begin, `lowest` the last one that may be found. Several filters
    are intersected: the ids of the shortest list are looked up in the others. Those whose signature
    lacks what is sought are left out.
    """
    lists = _lists(tenant, status, metadata, batch)
    shortest, *others = await _shortest_first(committer, lists)
    found: list[str] = []
    for _ in range(CHUNKS):
        if sought is None:
            size = CHUNK if others else wanted
            ids = await _below(committer, shortest, below, size, lowest)
            last = ids[-1] if len(ids) == size else None
        else:
            ids, last = await _likely_below(committer, tenant, shortest, below, lowest, sought)
        found += await _on_all(committer, others, ids)
        if len(found) >= wanted or last is None:
            return found[:wanted], None
        below = last
    return found, below


async def _shortest_first(committer: Committer, lists: Sequence[str]) -> list[str]:
    if len(lists) == 1:
        return list(lists)
    sizes = await asyncio.gather(*(committer.execute("ZCARD", name) for name in lists))
    return [name for _, name in sorted(zip(sizes, lists, strict=True))]


async def _below(
    committer: Committer, name: str, below: str | None, size: int, lowest: str | None
) -> list[str]:
    bounds = _range(below, lowest)
    ids = await committer.execute("ZREVRANGEBYLEX", name, *bounds, "LIMIT", 0, size)
    return [refinement_id.decode() for refinement_id in ids]


async def _likely_below(
    committer: Committer,
    tenant: str,
    name: str,
    below: str | None,
    lowest: str | None,
    sought: Sought,
) -> tuple[list[str], str | None]:
    """Return ids that may have what is sought, and the last one looked at if more follow."""
    where = (name, keys.SIGNATURES + tenant, *_range(below, lowest), SOUGHT_AT_ONCE)
    last, *ids = await committer.submit(SEARCH, *where, *sought.hashes)
    return [refinement_id.decode() for refinement_id in ids], last.decode() or None


def _range(below: str | None, lowest: str | None) -> tuple[str, str]:
    return "+" if below is None else f"({below}", "-" if lowest is None else f"[{lowest}"


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
    lists: list[str] = [keys.listed_by_metadata(tenant, *pair) for pair in metadata.items()]
    if batch is not None:
        lists.append(keys.listed_by_batch(tenant, batch))
    if status is not None:
        lists.append(keys.listed_by_status(tenant, status))
    return lists or [keys.refinement_list(tenant)]


def _bounds(selected: Selected, below: str | None) -> tuple[str | None, str | None]:
    """Return the lowest id, and the one below which to begin.

    Ids have the time of submission by the clock of an API process, which may differ a little.
    """
    lowest = _first_id(selected.submitted_from, -SKEW_MS) if selected.submitted_from else None
    if selected.submitted_to is not None:
        top = _first_id(selected.submitted_to, SKEW_MS)
        below = top if below is None else min(below, top)
    return lowest, below


def _submitted_at(snapshot: Snapshot) -> datetime:
    if snapshot.batch is None:
        return snapshot.created_at
    return ULID.from_str(snapshot.id.removeprefix(ID_PREFIX)).datetime


def _first_id(at: datetime, later_ms: int) -> str:
    """Return what no id of a time is below; a time before 1970 is then, as ids have no other."""
    milliseconds = max(0, round(at.timestamp() * 1000) + later_ms)
    return ID_PREFIX + str(ULID.from_bytes(milliseconds.to_bytes(6, "big") + bytes(10)))


class RefinementReader:
    """Another tenant's refinement is RefinementNotFound."""

    def __init__(
        self, committer: Committer, sealer: Sealer, archive: Archive | None = None
    ) -> None:
        self._committer = committer
        self._sealer = sealer
        self._archive = archive

    @refusing
    async def snapshot(self, tenant: str, refinement_id: str) -> Snapshot:
        """Return the current snapshot, else raise RefinementNotFound."""
        return await self._snapshot(tenant, refinement_id)

    @refusing
    async def request(self, tenant: str, refinement_id: str) -> RefinementRequest:
        """Return the submitted request, secrets included, else raise RefinementNotFound."""
        return await self._request(tenant, refinement_id)

    async def _request(self, tenant: str, refinement_id: str) -> RefinementRequest:
        for _ in range(2):  # what is unpacked between both reads is found by the second
            (owner, erased), (request, sealed) = await replies_in_order(
                self._committer.execute("HMGET", keys.SUMMARY + refinement_id, *OWNED),
                self._committer.execute("HMGET", keys.REQUEST + refinement_id, *REQUESTED),
            )
            if owner is None or owner.decode() != tenant:
                break
            if erased:
                raise NotStored(refinement_id)
            if not request and (record := await self._ended_record(tenant, refinement_id)):
                request, sealed = map(record.request.get, REQUESTED)
            if request:
                return decode_request(request, self._sealer.open(sealed, refinement_id))
        raise RefinementNotFound(refinement_id)

    @refusing
    async def page(
        self,
        tenant: str,
        *,
        status: Status | None = None,
        metadata: Mapping[str, str] = NO_METADATA,
        batch: str | None = None,
        selected: Selected = EVERYTHING,
        query: str | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> SnapshotPage:
        """Return one page, newest first; raise MalformedHeader for an invalid cursor.

        With filters that few refinements meet, a page may be short and have a next one.
        """
        sought = Sought.of(query)
        if status is None and len(selected.statuses) == 1:
            (only,) = selected.statuses
            status, selected = Status(only), replace(selected, statuses=frozenset())
        lowest, below = _bounds(selected, cursor and decode_cursor(tenant, cursor))
        wanted = limit + 1 if selected.is_everything else EXAMINED
        found: list[Snapshot] = []
        for _ in range(1 if selected.is_everything and not sought else EXAMINATIONS):
            ids, stopped_at = await _list_ids(
                self._committer, tenant, status, metadata, wanted, below, batch, lowest, sought
            )
            snapshots = await self._snapshots(ids, sought)
            found += (
                snapshot
                for snapshot in snapshots
                if selected.has(snapshot, _submitted_at(snapshot))
            )
            below = stopped_at or (ids[-1] if len(ids) == wanted else None)
            if below is None or len(found) > limit:
                break
        if len(found) > limit:
            found, below = found[:limit], found[limit - 1].id
        return SnapshotPage(
            data=tuple(found),
            has_more=below is not None,
            next_cursor=encode_cursor(tenant, below) if below is not None else None,
        )

    @refusing
    async def rated(self, ids: Sequence[str]) -> frozenset[str]:
        """Return those of these refinements that people have rated."""
        asked = [
            self._committer.execute("HGET", keys.SUMMARY + refinement_id, "ratings")
            for refinement_id in ids
        ]
        counts = await asyncio.gather(*asked)
        return frozenset(found for found, count in zip(ids, counts, strict=True) if count)

    @refusing
    async def events(
        self,
        tenant: str,
        refinement_id: str,
        after: int = 0,
        limit: int = 1_000,
        *,
        unpacks_once: bool = False,
    ) -> tuple[StoredEvent, ...]:
        """Return at most `limit` events after number `after`, oldest first, ready to send.

        If it `unpacks_once` they are all of a packed record, which is decompressed for every page.
        Raises RefinementNotFound.
        """
        entries = await self._entries(tenant, refinement_id, after, limit, unpacks_once)
        return tuple([stored_event(*entry) for entry in entries])

    @refusing
    async def last_event(self, tenant: str, refinement_id: str) -> int:
        """Return the number of the last event, else raise RefinementNotFound."""
        key = keys.SUMMARY + refinement_id
        owner, last = await self._committer.execute("HMGET", key, "tenant", "last_event")
        if owner is None or owner.decode() != tenant:
            raise RefinementNotFound(refinement_id)
        if last is None:
            last = with_stub(await self._own_summary(tenant, refinement_id))[b"last_event"]
        return int(last)

    @refusing
    async def decoded_events(
        self, tenant: str, refinement_id: str, after: int = 0, limit: int = 1_000
    ) -> tuple[Event, ...]:
        """Return the same events as `events`, decoded, without those of unknown types."""
        entries = await self._entries(tenant, refinement_id, after, limit)
        found = (decoded_event(entry_id, entry, final) for entry_id, entry, final, _ in entries)
        return tuple(event for event in found if event is not None)

    async def journal(self, tenant: str, refinement_id: str) -> list[Event]:
        """Return all events, as `decoded_events` returns some; raise RefinementNotFound."""
        journal: list[Event] = []
        while more := await self.decoded_events(tenant, refinement_id, len(journal), DECODED):
            journal += more
            if len(more) < DECODED:
                break
        return journal

    @refusing
    async def prompts(
        self, tenant: str, refinement_id: str, steps: Sequence[str], replies: Mapping[str, str]
    ) -> dict[str, KeptPrompt]:
        """Return the prompts of these steps that were kept, by their names.

        `replies` are those in the journal by steps: their drafts are not stored again. Raises
        RefinementNotFound.
        """
        known = known_texts(await self._request(tenant, refinement_id))
        kept = await self._committer.execute("HGETALL", keys.PROMPTS + refinement_id)
        if not kept and (record := await self._ended_record(tenant, refinement_id)):
            kept = record.prompts
        # it may be 20 MB of drafts
        return await asyncio.to_thread(decode_prompts, kept, steps, known, replies)

    async def _ended_record(self, tenant: str, refinement_id: str) -> EndedRecord | None:
        """Return a record that is packed, or archived."""
        if packed := await packed_record(self._committer, refinement_id):
            return packed
        if archived := await self._archived_record(tenant, refinement_id):
            return await archived.unpacked()
        return await packed_record(self._committer, refinement_id)  # it may be brought back

    async def _archived_record(self, tenant: str, refinement_id: str) -> ArchivedRecord | None:
        return await read_archived(self._committer, self._archive, tenant, refinement_id)

    async def _snapshot(self, tenant: str, refinement_id: str) -> Snapshot:
        return decode_snapshot(refinement_id, await self._summary(tenant, refinement_id))

    async def _summary(self, tenant: str, refinement_id: str) -> Summary:
        """Return the whole summary, perhaps from the archive; or raise RefinementNotFound."""
        found = await self._own_summary(tenant, refinement_id)
        return await whole_summary(self._committer, self._archive, refinement_id, found)

    async def _own_summary(self, tenant: str, refinement_id: str) -> Summary:
        """Return the summary in Redis: of an archived record its stub."""
        found: Summary = await self._committer.execute("HGETALL", keys.SUMMARY + refinement_id)
        if found.get(b"tenant") != tenant.encode():
            raise RefinementNotFound(refinement_id)
        return found

    async def _snapshots(
        self, ids: Sequence[str], sought: Sought | None = None
    ) -> tuple[Snapshot, ...]:
        """Return the snapshots of those that are still there, and have what is sought."""
        stored = await asyncio.gather(
            *(
                self._committer.execute("HGETALL", keys.SUMMARY + refinement_id)
                for refinement_id in ids
            )
        )
        summaries = {
            refinement_id: with_stub(summary)
            for refinement_id, summary in zip(ids, stored, strict=True)
            if summary
        }
        if sought is not None:
            has = await asyncio.gather(*(self._has(sought, *about) for about in summaries.items()))
            summaries = dict(compress(summaries.items(), has))
        return tuple(decode_snapshot(*about) for about in summaries.items())

    async def _has(self, sought: Sought, refinement_id: str, summary: Summary) -> bool:
        """Return whether a refinement has what is sought; the texts of an archived one are not."""
        texts = [*shown_texts(refinement_id, summary)]
        if sought.are_in(texts):
            return True
        if b"stub" in summary or b"erased_at" in summary:
            return False
        request = await self._committer.execute("HGET", keys.REQUEST + refinement_id, "request")
        if request is None and (record := await packed_record(self._committer, refinement_id)):
            request = record.request.get(b"request")
        stored = () if request is None else stored_texts(request, summary.get(b"result"))
        return sought.are_in((*texts, *stored))

    async def _entries(
        self,
        tenant: str,
        refinement_id: str,
        after: int,
        limit: int,
        unpacks_once: bool = False,
    ) -> list[tuple[bytes, Summary, bytes, bool]]:
        """Return id, fields, snapshot if it is terminal, and whether the work has ended with it."""
        reading = self._read_entries(tenant, refinement_id, after, limit, unpacks_once)
        entries, wanted, summary, ended = await reading
        found = []
        for place, (entry_id, entry) in enumerate(entries[:wanted]):
            final, is_over = b"", 0 < ended <= number_of(entry_id)
            if ends(entry):
                is_newest = place + 1 == len(entries)
                now = snapshot_json(refinement_id, summary) if is_newest else b""
                final = now or ended_as(entries[place + 1][1])
            found.append((entry_id, entry, final, is_over))
        return found

    async def _read_entries(
        self, tenant: str, refinement_id: str, after: int, limit: int, unpacks_once: bool
    ) -> tuple[Entries, int, Summary, int]:
        """Return entries after number `after`, how many of them are wanted, the summary if they end
        with a terminal one, and the number of the event that ended it, after which there are only
        ratings, or 0.

        Entries are one more than wanted, if there are, since the entry after a terminal one keeps
        its snapshot. These are plain commands, which take Redis half the time of a script.
        """
        journal, key = keys.JOURNAL + refinement_id, keys.SUMMARY + refinement_id
        while True:
            # In this order, so that no entry is newer than what is known of the refinement.
            page = (f"({min(after, LAST)}-0", "+", "COUNT", limit + 1)
            entries, fields = await replies_in_order(
                self._committer.execute("XRANGE", journal, *page),
                self._committer.execute("HMGET", key, *ENDED_FIELDS),
            )
            owner, erased, status, last, ended_event = fields
            if owner is None or owner.decode() != tenant:
                raise RefinementNotFound(refinement_id)
            if erased:
                raise NotStored(refinement_id)
            if last is None:  # a stub: its journal is archived, unless it is brought back now
                if found := await self._read_archived(tenant, refinement_id, after):
                    entries, summary, ended = found
                    return entries, len(entries) if unpacks_once else limit, summary, ended
                continue
            wanted = limit
            ended = int(ended_event or last) if status in ENDED_STATUSES else 0
            if entries and b"packed" in entries[0][1]:  # in which the whole journal is
                unpacked = await with_unpacked(entries)
                entries = [entry for entry in unpacked if number_of(entry[0]) > after]
                wanted = len(entries) if unpacks_once else limit
            if not entries or len(entries) > wanted or not ends(entries[-1][1]):
                return entries, wanted, {}, ended
            summary = await self._committer.execute("HGETALL", key)
            newest = summary.get(b"last_event")
            if newest is not None and int(newest) <= number_of(entries[-1][0]):
                return entries, wanted, summary, ended
            # Meanwhile something was appended after that entry, or it was archived or erased.

    async def _read_archived(
        self, tenant: str, refinement_id: str, after: int
    ) -> tuple[Entries, Summary, int] | None:
        """Return the same of an archived record; None if Redis has it again."""
        if (record := await self._archived_record(tenant, refinement_id)) is None:
            return None
        journal, summary = (await record.unpacked()).entries, record.summary
        entries = [entry for entry in journal if number_of(entry[0]) > after]
        ended = int(summary.get(b"ended_event") or summary[b"last_event"])
        return entries, {**summary, b"archived": b"1"}, ended
