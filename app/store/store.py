"""The API's side of the store: create, read, list, follow and command refinements."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import compress
from typing import Any
from uuid import uuid4

from pydantic_core import to_json
from ulid import ULID

from app.contract.drafts import sha256_of
from app.contract.endpoints import Endpoint
from app.contract.errors import (
    BatchNotFound,
    Conflict,
    HoneError,
    IdempotencyMismatch,
    NotStored,
    PreconditionFailed,
    RefinementNotFound,
)
from app.contract.events import Event
from app.contract.limits import Limits, LimitsChange
from app.contract.ratings import Rated
from app.contract.requests import RefinementRequest
from app.contract.reviews import PauseRequest, ReviewDecision
from app.contract.snapshot import EVERYTHING, Selected, Snapshot, SnapshotPage
from app.contract.status import Status
from app.contract.webhooks import Delivery
from app.store.access import AccessStore
from app.store.administration import Administration
from app.store.archive import Archive, ArchivedRecord
from app.store.archive_check import ArchiveCheck
from app.store.archive_transfer import (
    ArchiveTransfer,
    archived_at,
    read_archived,
    required,
    whole_summary,
)
from app.store.batches import BatchStore
from app.store.cell_records import CellRecords
from app.store.creation import Creation, Enqueuer
from app.store.live_texts import encode_watched
from app.store.packing import EndedRecord, Entries, packed_record, unpack_record, with_unpacked
from app.store.presets import PresetStore
from app.store.prompts import KeptPrompt, decode_prompts, known_texts
from app.store.proposals import ProposalStore, work_of
from app.store.redis import keys
from app.store.redis.codec import (
    ENDED_STATUSES,
    Summary,
    decode_cursor,
    decode_limits,
    decode_request,
    decode_snapshot,
    decoded_event,
    encode_additions,
    encode_cursor,
    encode_limits,
    encode_rating,
    encode_retry,
    ended_as,
    ends,
    number_of,
    pending_reviews,
    snapshot_json,
    stored_event,
)
from app.store.redis.committer import Commands, Committer, replies_in_order
from app.store.redis.connection import refusals, refusing
from app.store.redis.scripts import (
    COMMAND,
    ERASE,
    MOST_RATINGS,
    SEARCH,
)
from app.store.reviews import decide
from app.store.sealing import NO_SEALER, ProviderKeyStore, Resealing, Sealer
from app.store.searching import Sought, shown_texts, stored_texts
from app.store.signing_secrets import EndpointSecrets
from app.store.state import (
    BATCH_PREFIX,
    ID_PREFIX,
    Accepted,
    Addition,
    ArchiveAway,
    Job,
    NewRefinement,
    StoredEvent,
)
from app.store.statistics import Statistics
from app.store.stub import with_stub
from app.store.webhooks import WebhookStore

NO_METADATA: Mapping[str, str] = {}
OWNED = ("tenant", "erased_at")
REQUESTED = (b"request", b"secrets")
ENDED_FIELDS = ("tenant", "erased_at", "status", "last_event", "ended_event")
LAST = 2**64 - 1  # the highest number a stream id can hold

CHUNK = 500  # ids read in one round trip
SOUGHT_AT_ONCE = 2_000  # ids whose signatures one script compares, in about 3 ms
CHUNKS = 50  # maximum round trips for one page; after that a page may be short
DECODED = 200  # events of a journal that are decoded in one turn
SKEW = timedelta(seconds=10)
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
    lowest = _first_id(selected.submitted_from - SKEW) if selected.submitted_from else None
    if selected.submitted_to is not None:
        top = _first_id(selected.submitted_to + SKEW)
        below = top if below is None else min(below, top)
    return lowest, below


def _submitted_at(snapshot: Snapshot) -> datetime:
    if snapshot.batch is None:
        return snapshot.created_at
    return ULID.from_str(snapshot.id.removeprefix(ID_PREFIX)).datetime


def _first_id(at: datetime) -> str:
    """Return what no id of that millisecond is below."""
    milliseconds = max(0, round(at.timestamp() * 1000))
    return ID_PREFIX + str(ULID.from_bytes(milliseconds.to_bytes(6, "big") + bytes(10)))


class RefinementReader:
    """Reads refinements: snapshots, requests, lists page by page, journals and prompts.

    Another tenant's refinement is RefinementNotFound.
    """

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


NO_CHANGE = LimitsChange()
Versions = Collection[int] | None
"""Numbers of the last event with which a command may find a refinement; None: any."""

log = logging.getLogger(__name__)


class Store(RefinementReader):
    """The operations of the API. Every method raises `Unavailable` if Redis is unreachable.

    Another tenant's refinement is RefinementNotFound. A command that comes too late raises
    Conflict.
    """

    def __init__(
        self,
        committer: Committer,
        creation: Creation,
        enqueuer: Enqueuer,
        lease_ms: int,
        sealer: Sealer = NO_SEALER,
        secrets: EndpointSecrets | None = None,
        transfer: ArchiveTransfer | None = None,
    ) -> None:
        super().__init__(committer, sealer, None if transfer is None else transfer.archive)
        self._transfer = transfer
        self.webhooks = WebhookStore(committer, secrets)
        self.presets = PresetStore(committer, sealer)
        self.proposals = ProposalStore(committer)
        self.batches = BatchStore(committer, creation, sealer, self._archive)
        self.provider_keys = ProviderKeyStore(committer, sealer)
        self._creation = creation
        self._enqueuer = enqueuer
        self._lease_ms = lease_ms
        self.access = AccessStore(committer)
        self.cell = CellRecords(committer)
        self.number = creation.cell
        """That of its cell, if there are several."""
        self.statistics = Statistics(committer)
        self.administration = Administration(committer, creation.server, self.webhooks)
        self._resealing = Resealing(committer, sealer)

    def read_copies_through(self, commands: Commands) -> None:
        """Read presets and keys of providers, which every cell has a copy of, by these commands."""
        self.presets = PresetStore(commands, self._sealer)
        self.provider_keys = ProviderKeyStore(commands, self._sealer)

    @refusing
    async def create(self, new: NewRefinement, idempotency_key: str | None) -> Accepted:
        """Store and queue a refinement in one step.

        Returns the one that the same key and body created within 24 hours, if there is one. Raises
        IdempotencyMismatch, Overloaded if the queue is full or memory nearly full, and
        QuotaExceeded.
        """
        created = await self._creation.create(new, idempotency_key)
        if created.snapshot.archived:
            return replace(created, snapshot=await self._snapshot(new.tenant, created.id))
        return created

    async def webhook(self, tenant: str, record_id: str) -> Endpoint | None:
        """Return where the news of a refinement or batch goes, secrets included, if anywhere.

        Raises NotFound.
        """
        if record_id.startswith(BATCH_PREFIX):
            return await self.batches.webhook(tenant, record_id)
        return (await self.request(tenant, record_id)).webhook

    async def deliveries(self, tenant: str, record_id: str) -> tuple[Delivery, ...]:
        """Return the webhooks of a refinement or batch, else raise NotFound."""
        webhook = await self.webhook(tenant, record_id)
        if webhook is None:
            return ()
        with refusals():
            archived = await self._archived_record(tenant, record_id)
        stored = None if archived is None else archived.deliveries
        return await self.webhooks.deliveries(tenant, record_id, webhook.url, stored)

    @refusing
    async def knows(self, tenant: str, idempotency_key: str) -> bool:
        """Return whether a submission had this key within 24 hours."""
        key = keys.idempotency(tenant, idempotency_key)
        return bool(await self._committer.execute("EXISTS", key))

    @refusing
    async def bring_back(self, tenant: str, record_id: str) -> None:
        """Write a record into Redis again if it is archived."""
        if await archived_at(self._committer, tenant, record_id) is not None:
            await required(self._transfer).bring_back(tenant, record_id)

    @refusing
    async def cancel(
        self,
        tenant: str,
        refinement_id: str,
        command_id: str | None = None,
        versions: Versions = None,
    ) -> Snapshot:
        """Cancel it: immediately if no worker holds it, else it becomes `canceling`.

        Raises RefinementNotFound, Conflict if it has succeeded or failed, and PreconditionFailed
        if its last event is none of `versions`.
        """
        await self._command("cancel", tenant, refinement_id, command_id, versions)
        return await self._snapshot(tenant, refinement_id)

    @refusing
    async def finish(
        self,
        tenant: str,
        refinement_id: str,
        command_id: str | None = None,
        versions: Versions = None,
    ) -> Snapshot:
        """End it with its best draft: journal `refinement.stopping` as soon as there is one.

        A paused one is queued, and ends when it is claimed. Raises RefinementNotFound, Conflict if
        it has ended or is being canceled, and PreconditionFailed like `cancel`.
        """
        await self._command("finish", tenant, refinement_id, command_id, versions)
        return await self._snapshot(tenant, refinement_id)

    @refusing
    async def pause(
        self,
        tenant: str,
        refinement_id: str,
        pause: PauseRequest,
        command_id: str | None = None,
        versions: Versions = None,
    ) -> Snapshot:
        """Pause it after the steps in progress; nothing changes if it is paused already.

        Raises RefinementNotFound, Conflict if it has ended or is about to, and PreconditionFailed.
        """
        plan = pause.model_dump_json()
        await self._command("pause", tenant, refinement_id, command_id, versions, plan, plan)
        return await self._snapshot(tenant, refinement_id)

    @refusing
    async def review(
        self,
        tenant: str,
        refinement_id: str,
        review: ReviewDecision,
        command_id: str | None = None,
        versions: Versions = None,
        *,
        known_as: Sequence[str] = (),
    ) -> Snapshot:
        """Journal a reviewer's decision and queue the refinement, unless it needs more approvals.

        `known_as`: the names of the reviewer, the newest first; default: the one in the decision.
        Raises RefinementNotFound, Conflict unless this review is pending, IdempotencyMismatch if an
        earlier decision had this `command_id` and other content, PreconditionFailed, Forbidden for
        who is not asked, and InvalidRequest if it must say who decides.
        """
        names = known_as or (() if review.reviewer is None else (review.reviewer,))
        asked = review.model_dump_json() + to_json(names).decode()
        while True:
            summary = await self._own_summary(tenant, refinement_id)
            decided = error = None
            try:
                decided = decide(refinement_id, pending_reviews(summary), review, names)
            except HoneError as refusal:
                error = refusal
            last = with_stub(summary)[b"last_event"]
            args = (last, *(decided.words() if decided else ()))
            code, _ = await self._command(
                "review", tenant, refinement_id, command_id, versions, asked, *args
            )
            if code == "STALE":
                continue
            if code == "UNDECIDED" and error is not None:
                raise error
            return await self._snapshot(tenant, refinement_id)

    @refusing
    async def was_given(self, refinement_id: str, kind: str, command_id: str | None) -> bool:
        """Return whether a command of a client, `review` or `retry`, has taken effect before."""
        if command_id is None:
            return False
        key, name = keys.GIVEN + refinement_id, f"{kind} {command_id}"
        return bool(await self._committer.execute("HEXISTS", key, name))

    @refusing
    async def change(
        self,
        tenant: str,
        refinement_id: str,
        change: LimitsChange,
        command_id: str | None = None,
        versions: Versions = None,
    ) -> Limits:
        """Change limits and return those now in force; a change to the same ones is no event.

        Raises RefinementNotFound, Conflict if it has ended or is being canceled,
        PreconditionFailed, and IdempotencyMismatch if an earlier change had this `command_id` and
        other content.
        """
        asked = change.model_dump_json(exclude_none=True)
        while True:
            key = keys.SUMMARY + refinement_id
            seq, stored = await self._committer.execute("HMGET", key, "limits_seq", "limits")
            limits = stored and change.applied_to(decode_limits(stored))
            args = (asked, seq or "", (limits and encode_limits(limits)) or "")
            code, _ = await self._command(
                "change", tenant, refinement_id, command_id, versions, *args
            )
            if code != "STALE" and stored:  # else it was brought back from the archive
                return limits if code == "OK" else decode_limits(stored)
            # Another client has changed them in the meantime.

    @refusing
    async def retry(
        self,
        tenant: str,
        refinement_id: str,
        change: LimitsChange = NO_CHANGE,
        command_id: str | None = None,
    ) -> Snapshot:
        """Queue a failed refinement under changed limits: it goes on from its journal.

        The steps that made up its failure are void, and `max_seconds` starts anew. Raises
        RefinementNotFound, Conflict unless it has failed, and IdempotencyMismatch if an earlier
        retry had this `command_id` and other limits.
        """
        asked = change.model_dump_json(exclude_none=True)
        while True:
            summary = await self._summary(tenant, refinement_id)
            args = encode_retry(refinement_id, summary, change)
            code, _ = await self._command(
                "retry", tenant, refinement_id, command_id, None, asked, *args
            )
            if code in TAKEN:
                return await self._snapshot(tenant, refinement_id)
            # It was packed, or another command has changed it in the meantime.
            await unpack_record(self._committer, refinement_id)

    @refusing
    async def rate(
        self,
        tenant: str,
        refinement_id: str,
        rated: Rated,
        additions: Sequence[Addition] = (),
        command_id: str | None = None,
    ) -> tuple[Event, bool]:
        """Journal a person's rating, in any status, and add to sums.

        Returns its event, and whether it was journaled before under the same `command_id`. Raises
        RefinementNotFound, IdempotencyMismatch if an earlier rating had this `command_id` and other
        content, and Conflict if there are `MOST_RATINGS` already.
        """
        while True:
            summary = await self._summary(tenant, refinement_id)
            args = (*encode_rating(refinement_id, summary, rated), encode_additions(additions))
            code, number = await self._command(
                "rate", tenant, refinement_id, command_id, None, rated.model_dump_json(), *args
            )
            if code in TAKEN:
                break
            # It has ended in the meantime.
        entries = await self._entries(tenant, refinement_id, int(number) - 1, 1)
        (event,) = [decoded_event(entry_id, entry, b"") for entry_id, entry, *_ in entries]
        assert event is not None
        return event, code == "REPLAYED"

    async def archive_error(self) -> str:
        """Return why the archive cannot be used from here; empty if it can, or nothing is in it."""
        if not (installation := (await self.administration.archive()).installation):
            return ""
        try:
            await required(self._archive).require(installation)
        except ArchiveAway as error:
            return str(error)
        return ""

    async def seal_all(self) -> Counter[str]:
        """Seal everything under the newest key; return how many records were, by kind.

        Raises redis errors, UnreadableSecrets and ArchiveAway.
        """
        done = await self._resealing.seal_all()
        if self._archive is not None and (await self.administration.archive()).installation:
            done["archived records"] += await self.archive_check.seal_all()
        return done

    @cached_property
    def archive_check(self) -> ArchiveCheck:
        """What an operator does with the archive; raise ArchiveAway if none is set."""
        now = datetime.now(UTC)
        return ArchiveCheck(self._committer, required(self._archive), self._sealer, now)

    @property
    def unreadable_objects(self) -> Sequence[str]:
        """What is wrong with objects of the archive that `archive_check` could not read so far."""
        return () if self._archive is None else [*dict.fromkeys(self.archive_check.unreadable)]

    @refusing
    async def erase(self, tenant: str, refinement_id: str) -> None:
        """Delete it and everything derived from it, in any status, or raise RefinementNotFound."""
        await self._erase_proposals_from(tenant, [refinement_id])
        answer = await self._committer.submit(ERASE, refinement_id, tenant, "all")
        if answer == b"MISSING":
            raise RefinementNotFound(refinement_id)
        if answer == b"OBJECTS" and self._transfer is not None:
            await self._transfer.erase(tenant, refinement_id)

    async def erase_batch(self, tenant: str, batch_id: str) -> None:
        """Erase a batch in any status with its refinements and everything derived from them.

        Raises BatchNotFound. If this process dies meanwhile, a worker goes on.
        """
        await self._erase_proposals_from(tenant, await self.batches.begun(tenant, batch_id))
        await self.batches.erase(tenant, batch_id)

    async def erase_proposal(self, tenant: str, proposal_id: str, facts: Mapping[str, Any]) -> None:
        """Delete a proposal with the refinement and the batches that were made for it."""
        await self.erase_work(tenant, work_of(facts))
        await self.proposals.remove(tenant, proposal_id)

    async def erase_work(self, tenant: str, ids: Sequence[str]) -> None:
        """Erase refinements and batches that were made for a proposal, and may be gone."""
        for record_id in ids:
            with suppress(RefinementNotFound, BatchNotFound):
                if record_id.startswith(BATCH_PREFIX):
                    await self.batches.erase(tenant, record_id)
                else:
                    await self.erase(tenant, record_id)

    async def _erase_proposals_from(self, tenant: str, ids: Collection[str]) -> None:
        for proposal_id, facts in (await self.proposals.made_from(tenant, ids)).items():
            await self.erase_proposal(tenant, proposal_id, facts)

    @refusing
    async def delivered(self, tenant: str, refinement_id: str) -> None:
        """Erase the text of an ended refinement that is not to be stored; a client has the result.

        Nothing happens to others, to unknown ones, and while a webhook about it is to be sent.
        """
        await self._committer.submit(ERASE, refinement_id, tenant, "text")

    @refusing
    async def announce_watched(self, ids: Collection[str], behind: Collection[str]) -> None:
        """Tell the workers whose texts somebody watches, and which of them are needed whole."""
        message = encode_watched(ids, behind)
        await self._committer.execute("PUBLISH", keys.WATCHED, message)

    async def _command(
        self,
        name: str,
        tenant: str,
        refinement_id: str,
        command_id: str | None,
        versions: Versions,
        asked: str = "",
        *args: str | bytes | int,
    ) -> tuple[str, bytes]:
        """Send a command; return OK or REPLAYED, and a detail, or raise why it is refused.

        `asked` tells a command from others with its id. STALE or PACKED: what it was made from has
        changed meanwhile. UNDECIDED: a review that decides nothing might be given now.
        """
        pinned = "" if versions is None else f",{','.join(map(str, sorted(versions)))},"
        identity = (uuid4().hex, "-") if command_id is None else (command_id, sha256_of(asked))
        command = (refinement_id, tenant, name, *identity, pinned, self._lease_ms, *args)
        while (answer := await self._committer.submit(COMMAND, *command))[0] == b"ARCHIVED":
            await required(self._transfer).bring_back(tenant, refinement_id)
        code, detail, job = answer
        if job:
            self._enqueue(Job.numbered(refinement_id, job))
        if error := _refusal(code.decode(), refinement_id, detail):
            raise error
        return code.decode(), detail

    def _enqueue(self, job: Job) -> None:
        """Enqueue a job before any later request; if that fails, an idle worker will enqueue it.

        The command has taken effect, so no error here may reach the client.
        """

        def report(enqueued: asyncio.Future[object]) -> None:
            if error := enqueued.exception():
                log.warning("%s: a worker will enqueue its job: %s", job.refinement_id, error)

        self._enqueuer.submit(job).add_done_callback(report)


TAKEN = ("OK", "REPLAYED")
CHANGED = "{id} has changed: its last event is {detail}, which If-Match does not name"
UNFAILED = "only a failed refinement can be retried; an ended one with a result can be continued"
REFUSALS: Mapping[str, tuple[Callable[[str], HoneError], str]] = {
    "MISSING": (RefinementNotFound, "{id}"),
    "UNSTORED": (NotStored, "{id}"),
    "DIFFERS": (PreconditionFailed, CHANGED),
    "MISMATCH": (IdempotencyMismatch, "this Idempotency-Key was used with another body"),
    "LATER": (Conflict, "{id} is {detail}, a status of a later release of Hone"),
    "ENDED": (Conflict, "{id} has ended or is being canceled"),
    "STOPPING": (Conflict, "{id} is about to end"),
    "UNASKED": (Conflict, "{id} is not waiting for a review: pause it to say what to revise"),
    "UNFAILED": (Conflict, f"{{id}} is {{detail}}, and {UNFAILED}"),
    "RATED": (Conflict, f"{{id}} has {MOST_RATINGS} ratings, and takes no more"),
}
"""The error for each code with which command.lua refuses a command."""


def _refusal(code: str, refinement_id: str, detail: bytes) -> HoneError | None:
    if code not in REFUSALS:
        return None
    error, text = REFUSALS[code]
    return error(text.format(id=refinement_id, detail=detail.decode()))
