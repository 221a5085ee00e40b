"""The API's side of the store: create, read, list, follow and command refinements."""

import asyncio
import base64
import binascii
import logging
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import uuid4

from pydantic_core import to_json
from ulid import ULID, LaxMonotonicPolicy, ULIDGenerator

from app.contract.batches import BatchPage
from app.contract.calibration import CalibratedKind
from app.contract.drafts import sha256_of
from app.contract.endpoints import Endpoint
from app.contract.errors import (
    Conflict,
    FieldError,
    Forbidden,
    HoneError,
    IdempotencyMismatch,
    InvalidRequest,
    MalformedHeader,
    NotStored,
    Overloaded,
    PreconditionFailed,
    QuotaExceeded,
    RefinementNotFound,
)
from app.contract.events import Event
from app.contract.insights import KEPT_DAYS, Dimension, Key, Sums
from app.contract.limits import Limits, LimitsChange
from app.contract.ratings import Rated
from app.contract.requests import RefinementRequest
from app.contract.reviews import PauseRequest, ReviewDecision
from app.contract.snapshot import EVERYTHING, Selected, Snapshot, SnapshotPage
from app.contract.status import TERMINAL, Status
from app.contract.webhooks import Delivery
from app.store import keys
from app.store.access import AccessStore
from app.store.batches import BATCH_PREFIX, BatchPlace, BatchStore
from app.store.codec import (
    Summary,
    decode_limits,
    decode_request,
    decode_snapshot,
    decoded_event,
    encode_additions,
    encode_continued_from,
    encode_decision,
    encode_limits,
    encode_metadata,
    encode_queued,
    encode_rating,
    encode_retry,
    encode_submitted,
    encode_webhook,
    ended_as,
    ends,
    number_of,
    paired,
    snapshot_json,
    stored_event,
)
from app.store.committer import PROBE_MS, Committer, replies_in_order
from app.store.connection import RETRY_AFTER_S, refusals
from app.store.endpoints import EndpointSecrets
from app.store.enqueue import Enqueuer, Queue, Word, script_words
from app.store.inspection import ServerFacts, inspect, workload
from app.store.limits import StoredLimit, stored_limits
from app.store.live_texts import encode_watched
from app.store.packing import Entries, packed_record, unpack_record, unpacked, with_unpacked
from app.store.presets import PresetStore
from app.store.prompts import (
    KeptPrompt,
    decode_prompt,
    drafts_in,
    ids_in,
    known_texts,
    names_of,
    parts_of,
)
from app.store.provider_keys import ProviderKeyStore
from app.store.scripts import (
    CANCEL,
    CHANGE,
    CREATE,
    DEADLINE_MS,
    ERASE,
    ERASE_TEXT,
    FINISH,
    FULL,
    MOST_RATINGS,
    PAUSE,
    RATE,
    REQUEST,
    RETRY,
    REVIEW,
    SNAPSHOT,
    UNPLAYABLE,
    WORKERS,
    LuaScript,
)
from app.store.sealing import NO_SEALER, Resealing, Sealer
from app.store.state import (
    Addition,
    Created,
    Job,
    NewRefinement,
    StoredEvent,
    Submitted,
    beginning_of,
)
from app.store.statistics import (
    Achieved,
    Agreement,
    Candidates,
    Cells,
    TenantDay,
    achievements,
    agreements_of,
    calibrations,
    decode_insights,
    drawn_in,
    insight_keys,
    usage_days,
    usage_of,
)
from app.store.webhooks import WebhookStore

ID_PREFIX = "ref_"
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


Clock = Callable[[], float]
"""Seconds since any moment, from a clock that is never set."""

ENDED_FIELDS = ("tenant", "erased_at", "status", "last_event", "ended_event")
ENDED = frozenset(status.encode() for status in TERMINAL)
LAST = 2**64 - 1  # the highest number a stream id can hold
REMEMBERED_S = 24 * 3600  # how long an idempotency key is stored
RETRY_AFTER_BYTES_S = 60  # retention ends some day, and an erasure is not foreseen
MEASURED_FOR_S = 1.0  # maximum age of a measurement of Redis
DAY_S = 86_400
QUOTAS_OF_A_DAY = {"tokens_per_day": "tokens", "cost_usd_per_day": "dollars"}
QUOTAS = {"queued": "queued", "in_flight": "in flight"}
TIME_ERRORS = {
    b"PAST": ("/deadline", "the deadline is not in the future"),
    b"FAR": ("/deadline", "the deadline is more than 30 days away"),
    b"LATE": ("/start_after", "start_after is more than 30 days away"),
}
TURN_S = 60.0  # maximum time in this process, waits for a turn included

NO_METADATA: Mapping[str, str] = {}
NO_CHANGE = LimitsChange()
Versions = Collection[int] | None
"""Numbers of the last event with which a command may find a refinement; None: any."""

T = TypeVar("T")
P = ParamSpec("P")

log = logging.getLogger(__name__)


def refusing(
    method: "Callable[Concatenate[Store, P], Awaitable[T]]",
) -> "Callable[Concatenate[Store, P], Coroutine[Any, Any, T]]":
    """Wrap a method of the store in `refusals`.

    The time that Redis takes to answer is bounded by the committer. Here is only a limit for a
    process with so much to do that its own work waits.
    """

    @wraps(method)
    async def refused(self: "Store", /, *args: P.args, **kwargs: P.kwargs) -> T:
        with refusals():
            async with asyncio.timeout(TURN_S):
                return await method(self, *args, **kwargs)

    return refused


class Store:
    """The operations of the API. Every method raises `Unavailable` if Redis is unreachable.

    Another tenant's refinement is RefinementNotFound. A command that comes too late raises
    Conflict.
    """

    def __init__(
        self,
        committer: Committer,
        creation: "Creation",
        enqueuer: Enqueuer,
        lease_ms: int,
        sealer: Sealer = NO_SEALER,
        secrets: EndpointSecrets | None = None,
    ) -> None:
        self.webhooks = WebhookStore(committer, secrets)
        self.presets = PresetStore(committer, sealer)
        self.batches = BatchStore(committer, creation, sealer)
        self.provider_keys = ProviderKeyStore(committer, sealer)
        self._sealer = sealer
        self._committer = committer
        self._creation = creation
        self._enqueuer = enqueuer
        self._lease_ms = lease_ms
        self.access = AccessStore(committer)
        self.resealing = Resealing(committer, sealer)

    @refusing
    async def create(self, new: NewRefinement, idempotency_key: str | None) -> Created:
        """Store and queue a refinement in one step.

        Returns the one that the same key and body created within 24 hours, if there is one. Raises
        IdempotencyMismatch, Overloaded if the queue is full or memory nearly full, and
        QuotaExceeded.
        """
        return await self._creation.create(new, idempotency_key)

    @refusing
    async def snapshot(self, tenant: str, refinement_id: str) -> Snapshot:
        """Return the current snapshot, else raise RefinementNotFound."""
        return await self._snapshot(tenant, refinement_id)

    @refusing
    async def request(self, tenant: str, refinement_id: str) -> RefinementRequest:
        """Return the submitted request, secrets included, else raise RefinementNotFound."""
        return await self._request(tenant, refinement_id)

    async def _request(self, tenant: str, refinement_id: str) -> RefinementRequest:
        request, sealed, packed = await self._read(REQUEST, refinement_id, tenant)
        if packed:
            kept = (await unpacked(packed)).request
            request, sealed = kept[b"request"], kept.get(b"secrets")
        return decode_request(request, self._sealer.open(sealed, refinement_id))

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
        return await self.webhooks.deliveries(tenant, record_id, webhook.url)

    @refusing
    async def page(
        self,
        tenant: str,
        *,
        status: Status | None = None,
        metadata: Mapping[str, str] = NO_METADATA,
        batch: str | None = None,
        selected: Selected = EVERYTHING,
        limit: int = 20,
        cursor: str | None = None,
    ) -> SnapshotPage:
        """Return one page, newest first; raise MalformedHeader for an invalid cursor.

        With filters that few refinements meet, a page may be short and have a next one.
        """
        if status is None and len(selected.statuses) == 1:
            (only,) = selected.statuses
            status, selected = Status(only), replace(selected, statuses=frozenset())
        lowest, below = _bounds(selected, cursor and decode_cursor(tenant, cursor))
        wanted = limit + 1 if selected.is_everything else EXAMINED
        found: list[Snapshot] = []
        for _ in range(1 if selected.is_everything else EXAMINATIONS):
            ids, stopped_at = await list_ids(
                self._committer, tenant, status, metadata, wanted, below, batch, lowest
            )
            snapshots = await self._snapshots(ids)
            found += (it for it in snapshots if selected.has(it, _submitted_at(it)))
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

    async def batch_page(self, tenant: str, limit: int, cursor: str | None) -> BatchPage:
        """Return one page of batches, newest first; raise MalformedHeader for an invalid cursor.

        A page may be short and have a next one.
        """
        below = None if cursor is None else decode_cursor(tenant, cursor)
        shown, last_seen = await self.batches.page(tenant, limit, below)
        return BatchPage(
            data=tuple(shown),
            has_more=bool(last_seen),
            next_cursor=encode_cursor(tenant, last_seen) if last_seen else None,
        )

    @refusing
    async def events(
        self, tenant: str, refinement_id: str, after: int = 0, limit: int = 1_000
    ) -> tuple[StoredEvent, ...]:
        """Return at most `limit` events after number `after`, oldest first, ready to send.

        Raises RefinementNotFound.
        """
        entries = await self._entries(tenant, refinement_id, after, limit)
        return tuple([stored_event(*it) for it in entries])

    @refusing
    async def last_event(self, tenant: str, refinement_id: str) -> int:
        """Return the number of the last event, else raise RefinementNotFound."""
        key = keys.SUMMARY + refinement_id
        owner, last = await self._committer.execute("HMGET", key, "tenant", "last_event")
        if owner is None or owner.decode() != tenant:
            raise RefinementNotFound(refinement_id)
        return int(last)

    @refusing
    async def decoded_events(
        self, tenant: str, refinement_id: str, after: int = 0, limit: int = 1_000
    ) -> tuple[Event, ...]:
        """Return the same events as `events`, decoded, without those of unknown types."""
        entries = await self._entries(tenant, refinement_id, after, limit)
        found = (decoded_event(entry_id, entry, final) for entry_id, entry, final, _ in entries)
        return tuple(event for event in found if event is not None)

    @refusing
    async def insights(
        self, tenant: str, since: date | None, by: Collection[Dimension]
    ) -> tuple[date, dict[Key, Sums]]:
        """Return the sums of gains since a day, and that day: the first one that is kept, if later.

        Without a day, all that are kept count.
        """
        seconds, _ = await self._committer.execute("TIME")
        today = datetime.fromtimestamp(seconds, UTC).date()
        first = max(since or date.min, today - timedelta(days=KEPT_DAYS - 1))
        named = [*insight_keys(tenant, first, today, by)]
        stored = await asyncio.gather(*(self._committer.execute("HGETALL", it) for _, it in named))
        days = zip((of for of, _ in named), stored, strict=True)
        return first, await asyncio.to_thread(decode_insights, days)

    @refusing
    async def usage_days(
        self, tenant: str | None, first: date | None, last: date | None, default_days: int
    ) -> tuple[date, date, list[TenantDay]]:
        """Return the first and the last day, and those between for which there is usage.

        It is that of a tenant, or of all. The last day is today unless given, in UTC; without a
        first one there are `default_days`.
        """
        seconds, _ = await self._committer.execute("TIME")
        last = last or datetime.fromtimestamp(seconds, UTC).date()
        if first is None:
            first = date.fromordinal(max(1, last.toordinal() - default_days + 1))
        return first, last, await usage_days(self._committer, tenant, first, last)

    @refusing
    async def usage_of(self, days: Sequence[TenantDay]) -> Cells:
        """Return what refinements have consumed that ended on some tenants' days."""
        return await usage_of(self._committer, days)

    @refusing
    async def prompts(
        self, tenant: str, refinement_id: str, sha256s: Sequence[str], replies: Iterable[str]
    ) -> dict[str, KeptPrompt]:
        """Return the prompts with these SHA-256 sums that were kept.

        `replies` are those in the journal: their drafts are not stored again. Raises
        RefinementNotFound.
        """
        known = known_texts(await self._request(tenant, refinement_id))
        listed = await self._kept(refinement_id, names_of(sha256s))
        parts = {it: parts_of(of) for it, of in zip(sha256s, listed, strict=True) if of is not None}
        ids = sorted({it for of in parts.values() for it in ids_in(of)})
        texts = await self._kept(refinement_id, ids)
        found = dict(zip(ids, texts, strict=True))

        def decoded() -> dict[str, KeptPrompt]:
            drafts = drafts_in(replies)
            prompts = {it: decode_prompt(of, found, known, drafts) for it, of in parts.items()}
            return {it: prompt for it, prompt in prompts.items() if prompt is not None}

        return await asyncio.to_thread(decoded)  # it may be 20 MB of drafts

    @refusing
    async def cancel(
        self,
        tenant: str,
        refinement_id: str,
        versions: Versions = None,
        command_id: str | None = None,
    ) -> Snapshot:
        """Cancel it: immediately if no worker holds it, else it becomes `canceling`.

        Raises RefinementNotFound, Conflict if it has succeeded or failed, and PreconditionFailed
        if its last event is none of `versions`.
        """
        args = (command_id or uuid4().hex, _between_commas(versions))
        await self._give(CANCEL, tenant, refinement_id, *args)
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
        args = (command_id or uuid4().hex, self._lease_ms, _between_commas(versions))
        await self._give(FINISH, tenant, refinement_id, *args)
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
        args = (command_id or uuid4().hex, plan, self._lease_ms, _between_commas(versions))
        await self._give(PAUSE, tenant, refinement_id, *args)
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
        args = (
            command_id or uuid4().hex,
            review.path or "",
            encode_decision(review),
            to_json(names) if names else "",
            self._lease_ms,
            _between_commas(versions),
        )
        await self._give(REVIEW, tenant, refinement_id, *args)
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
        digest = "" if command_id is None else sha256_of(change.model_dump_json(exclude_none=True))
        command = (command_id or uuid4().hex, digest)
        while True:
            key = keys.SUMMARY + refinement_id
            seq, stored = await self._committer.execute("HMGET", key, "limits_seq", "limits")
            if seq is None or stored is None:
                raise RefinementNotFound(refinement_id)
            limits = change.applied_to(decode_limits(stored))
            args = (*command, seq, encode_limits(limits), _between_commas(versions))
            code = await self._give(CHANGE, tenant, refinement_id, *args)
            if code != "STALE":
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
        command = (command_id or uuid4().hex, change.model_dump_json(exclude_none=True))
        while True:
            summary = paired(await self._read(SNAPSHOT, refinement_id, tenant))
            args = (*command, *encode_retry(refinement_id, summary, change), self._lease_ms)
            if await self._give(RETRY, tenant, refinement_id, *args) == "OK":
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
        command_id = command_id or uuid4().hex
        while True:
            summary = paired(await self._read(SNAPSHOT, refinement_id, tenant))
            args = (*encode_rating(refinement_id, summary, rated), *encode_additions(additions))
            answer = await self._committer.submit(RATE, refinement_id, tenant, command_id, *args)
            code, _, number = answer.decode().partition(" ")
            if error := _refusal(code, refinement_id, ""):
                raise error
            if code in ("OK", "REPLAYED"):
                break
            # It has ended in the meantime.
        entries = await self._entries(tenant, refinement_id, int(number) - 1, 1)
        (event,) = [decoded_event(entry_id, entry, b"") for entry_id, entry, *_ in entries]
        assert event is not None
        return event, code == "REPLAYED"

    @refusing
    async def erase(self, tenant: str, refinement_id: str) -> None:
        """Delete it and everything derived from it, in any status, or raise RefinementNotFound."""
        await self._give(ERASE, tenant, refinement_id)

    @refusing
    async def delivered(self, tenant: str, refinement_id: str) -> None:
        """Erase the text of an ended refinement that is not to be stored; a client has the result.

        Nothing happens to others, to unknown ones, and while a webhook about it is to be sent.
        """
        await self._committer.submit(ERASE_TEXT, refinement_id, tenant)

    @refusing
    async def achieved(
        self, tenant: str, kind: str, candidates: Candidates
    ) -> Mapping[str, Mapping[str, Achieved]]:
        """Return by seat what models have achieved in the tasks of a kind they were drawn for."""
        return await achievements(self._committer, tenant, kind, candidates)

    @refusing
    async def agreements(self, tenant: str, critics: Sequence[str]) -> Mapping[str, Agreement]:
        """Return how critics of a tenant agreed with people and validators."""
        return await agreements_of(self._committer, tenant, critics)

    @refusing
    async def calibrations(self, tenant: str, limit: int) -> tuple[CalibratedKind, ...]:
        """Return what was learnt in at most `limit` rows: kinds, the newest first, then critics."""
        listed = await self._committer.execute("ZREVRANGE", keys.all_learnt(tenant), 0, limit - 1)
        *kinds, critics = await asyncio.gather(
            *(self._committer.execute("HGETALL", it) for it in (*listed, keys.trust(tenant)))
        )
        return calibrations(kinds, critics)[:limit]

    @refusing
    async def workers(self) -> int:
        """Return the number of workers with a heartbeat within their lease.

        Raises Unavailable also when Redis refuses writes, since no work is possible then.
        """
        await self._committer.execute("SET", keys.PROBE, 1, "PX", PROBE_MS)
        return int(await self._committer.submit(WORKERS))

    @refusing
    async def inspect(self, worker_key: Callable[[str], str]) -> ServerFacts:
        """Return how this Redis is set up, and the workers, which RQ has under `worker_key`."""
        return await inspect(self._committer, worker_key)

    @refusing
    async def waiting(self) -> int:
        """Return how many refinements of all tenants wait for a worker."""
        return int(await self._committer.execute("ZCARD", keys.WAITING))

    @refusing
    async def standing(self) -> Mapping[str, float]:
        """Return how many refinements, webhooks and workers stand in Redis, by what they are."""
        waiting, overdue = await self.waiting(), await self.webhooks.overdue()
        found = await workload(self._committer)
        return {**found, "waiting": waiting, "webhooks_overdue": overdue}

    async def used_memory(self) -> float:
        """Return the share of Redis's maxmemory that is used; 0 without a limit."""
        await self._creation.server.measure()
        return self._creation.server.used_share

    @refusing
    async def limits(self) -> tuple[StoredLimit, ...]:
        """Return the models and providers that are limited or have an open breaker."""
        return await stored_limits(self._committer)

    @refusing
    async def announce_watched(self, ids: Collection[str], behind: Collection[str]) -> None:
        """Tell the workers whose texts somebody watches, and which of them are needed whole."""
        message = encode_watched(ids, behind)
        await self._committer.execute("PUBLISH", keys.WATCHED, message)

    @refusing
    async def unplayable(self) -> tuple[str, ...]:
        """Return the versions that refinements need and no running worker plays.

        Workers put such refinements back; `LATER` stands for those that they could not read.
        """
        found: list[bytes] = await self._committer.submit(UNPLAYABLE)
        return tuple(sorted(version.decode() for version in found))

    async def _snapshot(self, tenant: str, refinement_id: str) -> Snapshot:
        summary = paired(await self._read(SNAPSHOT, refinement_id, tenant))
        return decode_snapshot(refinement_id, summary)

    async def _snapshots(self, ids: Sequence[str]) -> tuple[Snapshot, ...]:
        summaries = await asyncio.gather(
            *(self._committer.execute("HGETALL", keys.SUMMARY + it) for it in ids)
        )
        return tuple(
            decode_snapshot(refinement_id, summary)
            for refinement_id, summary in zip(ids, summaries, strict=True)
            if summary  # else it was erased a moment ago
        )

    async def _entries(
        self, tenant: str, refinement_id: str, after: int, limit: int
    ) -> list[tuple[bytes, Summary, bytes, bool]]:
        """Return id, fields, snapshot if it is terminal, and whether the work has ended with it."""
        entries, summary, ended = await self._read_entries(tenant, refinement_id, after, limit)
        found = []
        for place, (entry_id, entry) in enumerate(entries[:limit]):
            final, is_over = b"", 0 < ended <= number_of(entry_id)
            if ends(entry):
                is_newest = place + 1 == len(entries)
                now = snapshot_json(refinement_id, summary) if is_newest else b""
                final = now or ended_as(entries[place + 1][1])
            found.append((entry_id, entry, final, is_over))
        return found

    async def _read_entries(
        self, tenant: str, refinement_id: str, after: int, limit: int
    ) -> tuple[Entries, Summary, int]:
        """Return entries after number `after`, the summary if they end with a terminal one, and the
        number of the event that ended it, after which there are only ratings, or 0.

        They are one more than `limit`, if there are, since the entry after a terminal one keeps its
        snapshot. These are plain commands, which take Redis half the time of a script.
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
            ended = int(ended_event or last) if status in ENDED else 0
            if entries and b"packed" in entries[0][1]:  # in which the whole journal is
                unpacked = await with_unpacked(entries)
                entries = [it for it in unpacked if number_of(it[0]) > after]
            if not entries or len(entries) > limit or not ends(entries[-1][1]):
                return entries, {}, ended
            summary: Summary = await self._committer.execute("HGETALL", key)
            if summary and int(summary[b"last_event"]) <= number_of(entries[-1][0]):
                return entries, summary, ended
            # Something was appended after the terminal entry in the meantime, or it was erased.

    async def _kept(self, refinement_id: str, names: Sequence[bytes]) -> Sequence[bytes | None]:
        """Return fields of its prompts, wherever they are; None for those that are not kept."""
        if not names:
            return ()
        key = keys.PROMPTS + refinement_id
        found: list[bytes | None] = await self._committer.execute("HMGET", key, *names)
        if None in found and (record := await packed_record(self._committer, refinement_id)):
            return [record.prompts.get(name) for name in names]
        return found

    async def _read(self, script: LuaScript, refinement_id: str, *args: str | int) -> Sequence[Any]:
        reply: Sequence[Any] | None = await self._committer.submit(script, refinement_id, *args)
        if reply is None:
            raise RefinementNotFound(refinement_id)
        if reply == b"UNSTORED":
            raise NotStored(refinement_id)
        return reply

    async def _give(
        self, script: LuaScript, tenant: str, refinement_id: str, *args: str | bytes | int
    ) -> str:
        """Send a command; return OK, REPLAYED, or STALE if another has changed the limits first."""
        answer = await self._committer.submit(script, refinement_id, tenant, *args)
        if isinstance(answer, int):
            self._enqueue(Job.numbered(refinement_id, answer))
            return "OK"
        code, _, detail = answer.decode().partition(" ")
        if error := _refusal(code, refinement_id, detail):
            raise error
        return str(code)

    def _enqueue(self, job: Job) -> None:
        """Enqueue a job before any later request; if that fails, an idle worker will enqueue it.

        The command has taken effect, so no error here may reach the client.
        """

        def report(enqueued: asyncio.Future[object]) -> None:
            if error := enqueued.exception():
                log.warning("%s: a worker will enqueue its job: %s", job.refinement_id, error)

        self._enqueuer.submit(job).add_done_callback(report)


def _between_commas(versions: Versions) -> str:
    return "" if versions is None else f",{','.join(map(str, sorted(versions)))},"


UNSUITED = {
    "call": "a call of a tool is under review: approve it, replace its `arguments`, or reject it",
    "draft": "a draft is under review: `arguments` replaces those of a call of a tool",
}


def _refusal(code: str, refinement_id: str, detail: str) -> HoneError | None:
    conflicts = {
        "ENDED": "has ended or is being canceled",
        "STOPPING": "is about to end",
        "UNASKED": "is not waiting for a review: pause it to say what to revise",
        "REQUESTED": "was paused on request: only the actions resume, revise and replace are"
        " possible, without a `score`",
        "PLACELESS": "was paused where no draft can be changed, since the best one is finished, or"
        " reviews of it are planned: only the action resume is possible",
        "UNJUDGED": "was paused before a draft was judged: give the first one with the action"
        " replace, or resume it",
        "UNREQUESTED": "is waiting for a review, which the action resume does not answer",
        "ALONE": "needs several approvals, which one rating, or other arguments of a call, are not",
        "OTHER": f"is waiting for another review, {detail}",
        "SEVERAL": f"is waiting for several reviews, of which `path` must name one: {detail}",
        "UNFAILED": f"is {detail}, and only a failed refinement can be retried; an ended one with"
        " a result can be continued",
        "RATED": f"has {MOST_RATINGS} ratings, and takes no more",
    }
    if code == "MISSING":
        return RefinementNotFound(refinement_id)
    if code == "UNSTORED":
        return NotStored(refinement_id)
    if code == "DIFFERS":
        return PreconditionFailed(
            f"{refinement_id} has changed: its last event is {detail}, which If-Match does not name"
        )
    if code == "MISMATCH":
        return IdempotencyMismatch("this Idempotency-Key was used with another body")
    if code in conflicts:
        return Conflict(f"{refinement_id} {conflicts[code]}")
    return _refused_reviewer(code, refinement_id, detail)


UNNAMED = "this review must know who decides"


def _refused_reviewer(code: str, refinement_id: str, detail: str) -> HoneError | None:
    if code == "UNSUITED":
        return InvalidRequest(UNSUITED[detail])
    if code == "STRANGER":
        return Forbidden(f"the review that {refinement_id} waits for has other `reviewers`")
    if code == "NAMELESS":
        return InvalidRequest.at(FieldError(pointer="/reviewer", detail=UNNAMED))
    return None


def _unusable_time(code: bytes) -> InvalidRequest:
    pointer, detail = TIME_ERRORS[code]
    return InvalidRequest.at(FieldError(pointer=pointer, detail=detail))


def _milliseconds_of(deadline: datetime | None) -> int | None:
    return None if deadline is None else round(deadline.timestamp() * 1000)


class Creation:
    """Writes the record and the queue entry by one script, which also decides whether it may."""

    def __init__(
        self,
        queue: Queue,
        committer: Committer,
        clock: Clock,
        *,
        queue_max: int,
        lease_ms: int,
        retention_ms: int,
        sealer: Sealer = NO_SEALER,
    ) -> None:
        self._sealer = sealer
        self._queue = queue
        self.committer = committer
        self._queue_max = queue_max
        self.lease_ms = lease_ms
        self.retention_ms = retention_ms
        self.server = ServerStatus(committer, clock)
        self._ids = ULIDGenerator(self.server.time_ms, policy=LaxMonotonicPolicy())

    async def create(self, new: NewRefinement, idempotency_key: str | None) -> Created:
        """Return the new refinement, or the one that the same key and body created.

        Raises redis errors, IdempotencyMismatch, Overloaded, and InvalidRequest for a deadline that
        has passed or is more than 30 days away.
        """
        await self.server.measure()
        reply = await self.committer.submit(CREATE, *self._args(new, idempotency_key))
        if isinstance(reply, bytes):
            raise self._refusal(reply)
        first_id, is_replayed, summary = reply
        refinement_id = first_id.decode()
        if not summary:
            raise RefinementNotFound(refinement_id)
        return Created(decode_snapshot(refinement_id, paired(summary)), bool(is_replayed))

    def _refusal(self, code: bytes) -> HoneError:
        if code == b"MISMATCH":
            return IdempotencyMismatch(
                "this Idempotency-Key was used with another body within 24 hours"
            )
        if code in TIME_ERRORS:
            return _unusable_time(code)
        if code.startswith(b"QUOTA"):
            _, quota, most = code.decode().split()
            if quota in QUOTAS_OF_A_DAY:
                until_s = DAY_S - self.server.time_ms() // 1000 % DAY_S
                detail = f"this tenant may spend {most} {QUOTAS_OF_A_DAY[quota]} a day"
                return QuotaExceeded(detail, retry_after_s=until_s)
            if quota == "bytes_stored":
                detail = f"the refinements of this tenant may take {most} bytes; erase some"
                return QuotaExceeded(detail, retry_after_s=RETRY_AFTER_BYTES_S)
            detail = f"this tenant may have {most} refinements {QUOTAS[quota]} at a time"
            return QuotaExceeded(detail, retry_after_s=RETRY_AFTER_S)
        if code == b"FULL":
            detail = f"{self._queue_max} refinements are waiting; try again later"
        else:
            detail = "the memory of Redis is nearly full; try again when refinements have expired"
        return Overloaded(detail, retry_after_s=RETRY_AFTER_S)

    def new_ulid(self) -> str:
        """Return an id by the time of Redis, greater than those before it."""
        return str(self._ids.generate())

    async def is_memory_full(self) -> bool:
        """Return whether no more may be stored."""
        await self.server.measure()
        return self.server.used_share >= FULL

    def seal(self, secrets: Mapping[str, str], about: str) -> bytes:
        """Encrypt secrets by JSON Pointer."""
        return self._sealer.seal(secrets, about)

    def staged(self, new: NewRefinement, place: BatchPlace) -> tuple[str, tuple[Word, ...]]:
        """Return a new id, and what batch_stage.lua stores so that the refinement can be created.

        Raises InvalidRequest for a deadline that has passed, and a time more than 30 days away.
        """
        refinement_id, deadline = (
            f"{ID_PREFIX}{self.new_ulid()}",
            _milliseconds_of(new.request.deadline),
        )
        left_ms = deadline - self.server.time_ms() if deadline else DEADLINE_MS
        if not 0 < left_ms <= DEADLINE_MS:
            raise _unusable_time(b"PAST" if left_ms <= 0 else b"FAR")
        start_after = _milliseconds_of(new.request.start_after) or 0
        if start_after - self.server.time_ms() > DEADLINE_MS:
            raise _unusable_time(b"LATE")
        summary = [
            it.decode() if isinstance(it, bytes) else str(it)
            for it in (*self._fields(new), *place.fields())
        ]
        staged = {
            "deadline": str(deadline or ""),
            "metadata": encode_metadata(new.request.metadata).decode(),
            "queued": encode_queued(new.queued).decode(),
            "begins": beginning_of(new.request),
            "summary": summary,
        }
        return refinement_id, (
            *encode_submitted(Submitted(new.request, new.models)),
            new.prompt_nonce,
            self.seal(new.request.secrets(), refinement_id),
            to_json(staged),
        )

    def _args(self, new: NewRefinement, idempotency_key: str | None) -> list[Word]:
        refinement_id = f"{ID_PREFIX}{self.new_ulid()}"
        fields, deadline = self._fields(new), _milliseconds_of(new.request.deadline)
        return [
            refinement_id,
            new.tenant,
            self.lease_ms,
            self._queue.key,
            self._queue_max,
            new.request.priority,
            int(self.server.used_share >= FULL),
            _milliseconds_of(new.request.start_after) or "",
            deadline or "",
            "" if idempotency_key is None else keys.idempotency(new.tenant, idempotency_key),
            REMEMBERED_S,
            new.body_sha256,
            *encode_submitted(Submitted(new.request, new.models)),
            encode_queued(new.queued),
            encode_metadata(new.request.metadata),
            new.prompt_nonce,
            beginning_of(new.request),
            self._sealer.seal(new.request.secrets(), refinement_id),
            len(fields),
            *fields,
            *script_words(self._queue.commands(refinement_id, f"{refinement_id}-1")),
        ]

    def _fields(self, new: NewRefinement) -> tuple[Word, ...]:
        return (
            "excerpt",
            to_json(new.request.excerpt),
            "strategy",
            new.request.strategy.kind,
            "limits",
            encode_limits(new.limits),
            "retention_ms",
            self.retention_ms if (kept_s := new.request.retention_s) is None else kept_s * 1000,
            "engine_version",
            new.engine_version,
            *(() if new.api_key is None else ("api_key", new.api_key)),
            *(() if new.request.store else ("store", 0)),
            *(("priority", "batch") if new.request.priority == "batch" else ()),
            *(
                ()
                if (at := new.request.start_after) is None
                else ("start_after", _milliseconds_of(at) or 0)
            ),
            *encode_continued_from(new.continued_from),
            *(("origin", new.origin) if new.origin else ()),
            *(() if (hook := new.request.webhook) is None else ("webhook", encode_webhook(hook))),
            *(() if (drawn := drawn_in(new)) is None else ("drawn", drawn)),
        )


class ServerStatus:
    """The memory and the time of Redis, measured at most once a second.

    Redis TIME is estimated from a local clock. An estimate that a measurement allows is kept, so
    that a slow answer does not disturb it.
    """

    def __init__(self, committer: Committer, clock: Clock) -> None:
        self.used_share = 0.0  # of maxmemory; 0 without a maxmemory
        self._committer = committer
        self._clock = clock
        self._ahead_s = 0.0  # of the local clock
        self._measured_at = float("-inf")
        self._measuring: asyncio.Task[None] | None = None

    def time_ms(self) -> int:
        """Return Redis TIME, in milliseconds since 1970."""
        return int((self._clock() + self._ahead_s) * 1000)

    async def measure(self) -> None:
        """Measure unless that was done within a second; callers share a measurement."""
        if self._measuring is None and self._clock() - self._measured_at > MEASURED_FOR_S:
            self._measuring = asyncio.create_task(self._measure())
        if self._measuring is not None:
            await asyncio.shield(self._measuring)

    async def _measure(self) -> None:
        try:
            sent_at = self._clock()
            (seconds, microseconds), info = await asyncio.gather(
                self._committer.execute("TIME"), self._committer.execute("INFO", "memory")
            )
            self._measured_at = self._clock()
            now = seconds + microseconds / 1e6
            self._ahead_s = min(max(self._ahead_s, now - self._measured_at), now - sent_at)
            bound = info["maxmemory"]
            self.used_share = info["used_memory"] / bound if bound else 0.0
        finally:
            self._measuring = None
