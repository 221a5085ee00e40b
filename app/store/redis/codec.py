"""Encodes values as bytes for Redis, and decodes them."""

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from struct import unpack
from typing import Any, Final, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from app.contract.batches import BatchWebhook
from app.contract.errors import MalformedHeader
from app.contract.events import (
    DATA_OF,
    TERMINAL_TYPES,
    Event,
    EventData,
    EventType,
    Queued,
    Retried,
)
from app.contract.judgement import Usage
from app.contract.limits import Limits, LimitsChange
from app.contract.models import ModelChoice
from app.contract.ratings import Rated
from app.contract.requests import RefinementRequest
from app.contract.reviews import (
    DatedApproval,
    Paused,
    PendingPause,
    PendingReview,
)
from app.contract.snapshot import (
    Best,
    ContinuedFrom,
    Failure,
    IterationScore,
    Links,
    Result,
    Snapshot,
)
from app.contract.statistics import ModelUse
from app.contract.status import TERMINAL, OutcomeReason, Status, StopReason
from app.contract.waiting import Waiting
from app.contract.webhooks import Webhook
from app.store.redis.keys import KeyedJson
from app.store.state import (
    Addition,
    Entry,
    Fields,
    Parking,
    State,
    StoredEvent,
    Submitted,
    UnreadableRecord,
)

Encode = Callable[..., bytes]


def _encoder(kind: Any) -> Encode:
    """Return what writes values of a type as JSON; `TypeAdapter.dump_json` around it takes as long
    as short values do."""
    return TypeAdapter(kind).serializer.to_json


_DATA: dict[EventType, Encode] = {kind: _encoder(model) for kind, model in DATA_OF.items()}
_FIELDS: dict[str, Encode] = {
    "phase": _encoder(tuple[str, ...]),
    "iteration": _encoder(int),
    "best": _encoder(Best),
    "best_passed": _encoder(bool),
    "scores": _encoder(tuple[IterationScore, ...]),
    "usage": _encoder(Usage),
    "waiting": _encoder(tuple[Waiting, ...]),
    "result": _encoder(Result),
    "error": _encoder(Failure),
    "stop_reason": str.encode,
    "lacks": str.encode,
    "achieved": _encoder(dict[str, tuple[float, float | None]]),
    "used": _encoder(dict[str, ModelUse]),
}
_LIMITS = TypeAdapter(Limits)
_PAUSE = TypeAdapter(PendingPause)
UNKNOWN_FIELDS: Final = "allow"
"""Keep the fields that a later release stored; requests from clients stay strict."""

_MODELS = TypeAdapter(dict[str, ModelChoice])
_TYPES = {event_type.encode(): event_type for event_type in EventType}
_ENDINGS = frozenset(event_type.encode() for event_type in EventType if event_type.is_terminal)
_RETRIED = EventType.RETRIED.encode()
_STATUS = {status.encode(): status for status in Status}
_REASON: dict[bytes, StopReason | None] = {
    b"-": None,
    **{reason.encode(): reason for reason in StopReason},
}


ENDED_STATUSES = frozenset(status.encode() for status in TERMINAL)
NEXT = {"next"}
PACKED = b"d"  # before numbers of 8 bytes each; no JSON begins with it

NO_PROMPTS: Mapping[str, bytes] = {}
NO_SECRETS: Mapping[str, str] = {}


def encode_fields(fields: Fields) -> list[str | bytes]:
    """Return name and value of every field that is set, one after the other."""
    encoded: list[str | bytes] = []
    for name, value in vars(fields).items():
        if value is not None:
            encoded += name, _FIELDS[name](value)
    return encoded


def encode_entries(entries: Sequence[Entry]) -> list[str | bytes]:
    """Return type and data of every entry, one after the other; missing data is empty."""
    encoded: list[str | bytes] = []
    for entry in entries:
        if entry.data is None:
            data = b""
        elif entry.next:
            known = _DATA[entry.type](entry.data, exclude=NEXT)
            data = b'%b,"next":%b}' % (known[:-1], to_json(entry.next))
        else:
            data = _DATA[entry.type](entry.data)
        encoded += entry.type, data
    return encoded


def encode_append(
    entries: Sequence[Entry],
    fields: Fields,
    to: Status | None,
    parking: Parking | None = None,
    waited_s: float = 0.0,
    prompts: Mapping[str, bytes] = NO_PROMPTS,
    additions: Sequence[Addition] = (),
) -> tuple[str | bytes, ...]:
    """Return the arguments of an append that define the written fields, entries and sums.

    Raises ValueError unless there are entries or it parks, with a terminal one exactly if `to` is
    terminal, and `refinement.paused` exactly if `to` is paused; and for additions without a
    terminal one.
    """
    kinds = [entry.type for entry in entries]
    ends = not TERMINAL_TYPES.isdisjoint(kinds)
    if not (entries or parking) or ends != (to is not None and to.is_terminal):
        raise ValueError("an append must have entries, and a terminal one exactly if it ends")
    if (EventType.PAUSED in kinds) != (to is Status.PAUSED):
        raise ValueError("an append must have refinement.paused exactly if it pauses")
    if additions and not ends:
        raise ValueError("only an append that ends a refinement adds to sums")
    encoded = encode_fields(fields)
    awaited = b"" if parking is None else to_json(parking.awaited)
    waited_ms = f"{round(waited_s * 1000)}"
    written = encode_entries(entries)
    parts = list(chain.from_iterable(prompts.items()))
    counts = (f"{len(encoded)}", f"{len(written)}", f"{len(parts)}")
    added = (encode_additions(additions),) if additions else ()
    return (to or "", awaited, waited_ms, *counts, *encoded, *written, *parts, *added)


def encode_additions(additions: Sequence[Addition]) -> KeyedJson:
    """Encode what `add` in sums.lua adds."""
    return KeyedJson(to_json(additions))


def decode_sums(stored: bytes) -> Any:
    """Decode one field of a hash of sums: packed numbers, or JSON: what the sums are of,
    and their version.
    """
    return readable_sums(stored) if stored[:1] == PACKED else from_json(stored)


def readable_sums(stored: bytes) -> list[float]:
    """Decode packed numbers; what cannot be read is none."""
    if stored[:1] != PACKED or len(stored) % 8 != 1:
        return []
    return [*unpack(f"<{len(stored) // 8}d", stored[1:])]


def encode_continued_from(began: ContinuedFrom | None) -> tuple[str | bytes, ...]:
    """Return the fields of a summary that say which draft it started from."""
    if began is None:
        return ()
    return ("parent", began.id, "continued_from", began.model_dump_json().encode())


def decode_state(reply: bytes, known: State | None) -> State:
    """Decode the answer of `state` in claims.lua, without its code; `known` has omitted limits.

    Raises UnreadableRecord for a status or a reason of a later release.
    """
    status, last, stopping, finish, pause, seq, limits = reply.split(b" ", 6)
    if status not in _STATUS or stopping not in _REASON:
        raise UnreadableRecord(f"status {status.decode()}, stopping {stopping.decode()}")
    if limits:
        now_in_force = decode_limits(limits)
    else:
        assert known is not None
        now_in_force = known.limits
    return State(
        status=_STATUS[status],
        last_event=int(last),
        limits=now_in_force,
        limits_seq=int(seq),
        stopping=_REASON[stopping],
        finish_requested=finish == b"1",
        pause=None if pause == b"-" else _PAUSE.validate_json(pause, extra=UNKNOWN_FIELDS),
    )


def encode_limits(limits: Limits) -> bytes:
    """Encode limits."""
    return _LIMITS.dump_json(limits)


@lru_cache(maxsize=1024)
def decode_limits(stored: bytes) -> Limits:
    """Decode limits; cached, because most refinements share a few."""
    return _LIMITS.validate_json(stored, extra=UNKNOWN_FIELDS)


@lru_cache(maxsize=1024)
def _limits_shown(stored: bytes) -> tuple[bytes, bytes]:
    """Return the two limits that a snapshot shows; cached like `decode_limits`."""
    limits = decode_limits(stored)
    return to_json(limits.max_iterations), to_json(limits.threshold)


def encode_submitted(submitted: Submitted) -> tuple[bytes, bytes]:
    """Encode the request, its secrets masked, and the models."""
    request = submitted.request.model_dump_json(by_alias=True)
    return request.encode(), _MODELS.dump_json(dict(submitted.models))


def encode_webhook(webhook: Webhook) -> str:
    """Encode what the scripts must know of a webhook: timeout in ms, and types of events."""
    return f"{round(webhook.timeout_s * 1000)} {' '.join(webhook.events)}"


def decode_batch_webhook(stored: bytes, secrets: Mapping[str, str]) -> BatchWebhook:
    """Decode the webhook of a batch, and put its secrets in their places."""
    with reading("the webhook"):
        return BatchWebhook.model_validate_json(
            with_secrets(stored, secrets) if secrets else stored, extra=UNKNOWN_FIELDS
        )


def encode_queued(queued: Queued) -> bytes:
    """Encode the data of the first entry, which create.lua writes."""
    return _DATA[EventType.QUEUED](queued)


def decode_request(stored: bytes, secrets: Mapping[str, str] = NO_SECRETS) -> RefinementRequest:
    """Decode a request, and put its secrets in their places; else raise UnreadableRecord."""
    if secrets:
        stored = with_secrets(stored, secrets)
    with reading("the request"):
        return RefinementRequest.model_validate_json(stored, extra=UNKNOWN_FIELDS)


def with_secrets(stored: bytes, secrets: Mapping[str, str]) -> bytes:
    """Return JSON with these values at these JSON Pointers, in which no part is escaped."""
    tree = from_json(stored)
    for pointer, secret in secrets.items():
        _, *path, last = pointer.split("/")
        at = tree
        for part in path:
            at = at[int(part) if isinstance(at, list) else part]
        at[last] = secret
    return to_json(tree)


def decode_models(stored: bytes) -> dict[str, ModelChoice]:
    """Decode the model of each seat, else raise UnreadableRecord."""
    with reading("the models"):
        return _MODELS.validate_json(stored, extra=UNKNOWN_FIELDS)


def encode_metadata(metadata: dict[str, str]) -> bytes:
    """Encode metadata."""
    return to_json(metadata)


def moment(milliseconds: int) -> datetime:
    """Return the time that Redis counts in milliseconds since 1970."""
    seconds, rest = divmod(milliseconds, 1000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest * 1000)


@lru_cache(maxsize=1024)
def json_moment(milliseconds: bytes | None) -> bytes:
    """Return such a time in the format of the contract's JSON, or null.

    Cached, because the entries of one append share it.
    """
    return b"null" if milliseconds is None else to_json(moment(int(milliseconds)))


Summary = Mapping[bytes, bytes]

_NULL = dict.fromkeys(
    (
        *(b"best", b"iteration", b"result", b"error", b"outcome", b"stop_reason"),
        *(b"excerpt", b"strategy", b"reviewed", b"parent", b"continued_from"),
        *(b"batch", b"custom_id", b"api_key"),
    ),
    b"null",
)
_NEVER = dict.fromkeys((b"start_after", b"started_at", b"ended_at", b"expires_at", b"erased_at"))
_EMPTY: Mapping[bytes, Any] = {
    **_NULL,
    **_NEVER,
    b"scores": b"[]",
    b"usage": to_json(Usage()),
    b"phase": b"[]",
    b"priority": b'"interactive"',
    b"store": b"1",
}
"""What stands for the fields that a summary does not have."""

_TEXTS = (
    *(b"status", b"outcome", b"stop_reason", b"strategy", b"priority"),
    *(b"parent", b"batch", b"api_key"),
)
"""Fields of a summary that are stored without quotes."""


def links(refinement_id: str) -> Links:
    """Return the links of a refinement."""
    at = f"/v1/refinements/{refinement_id}"
    own = {"self": at}
    return Links.model_validate({name: f"{at}/{name}" for name in _LINKED} | own)


_LINKED = [field.alias or name for name, field in Links.model_fields.items()]
_LINKS = links("{id}").model_dump_json().encode()


def snapshot_json(refinement_id: str, summary: Summary) -> bytes:
    """Return the snapshot; `result` is shown once the refinement has ended."""
    status = _STATUS.get(summary[b"status"])
    has_ended = b"ended_at" in summary if status is None else status in TERMINAL
    reviews = pending_reviews(summary)
    max_iterations, threshold = _limits_shown(summary[b"limits"])
    quoted = {name: b'"%b"' % summary[name] for name in _TEXTS if name in summary}
    stored = {**_EMPTY, **summary, **quoted}
    made = {
        b"id": b'"%b"' % refinement_id.encode(),
        b"reason": _reason(summary) if b"outcome" in summary else b"null",
        b"max_iterations": max_iterations,
        b"threshold": threshold,
        b"result": stored[b"result"] if has_ended else b"null",
        b"review": reviews[0].model_dump_json().encode() if reviews else b"null",
        b"reviews": to_json(reviews) if reviews else b"[]",
        b"waiting": b"null" if has_ended else _waiting(summary),
        b"submitted_by": stored[b"api_key"],
        b"created_at": json_moment(stored[b"created_at"]),
        b"start_after": json_moment(stored[b"start_after"]),
        b"started_at": json_moment(stored[b"started_at"]),
        b"ended_at": json_moment(stored[b"ended_at"]),
        b"expires_at": json_moment(stored[b"expires_at"]),
        b"store": b"false" if stored[b"store"] == b"0" else b"true",
        b"erased_at": json_moment(stored[b"erased_at"]),
        b"archived": b"true" if summary.get(b"archived") else b"false",
        b"links": _LINKS.replace(b"{id}", refinement_id.encode()),
    }
    stored |= made
    return b"{" + b",".join([b'"%b":%b' % (name, stored[name]) for name in _MEMBERS]) + b"}"


_MEMBERS = [name.encode() for name in Snapshot.model_fields]


def _reason(summary: Summary) -> bytes:
    """Return why the outcome of an ended refinement is what it is."""
    limits, reason = decode_limits(summary[b"limits"]), summary.get(b"stop_reason")
    best = from_json(summary.get(b"best", b"null"))
    scores = from_json(summary.get(b"scores", b"[]"))
    error = from_json(summary.get(b"error", b"null"))
    decided = from_json(summary.get(b"reviewed", b"null"))
    judged = [of["score"] or 0.0 for of in scores]
    since = len(judged) - 1 - judged.index(max(judged)) if judged else 0
    told = OutcomeReason(
        outcome=summary[b"outcome"].decode(),
        stop_reason=None if reason is None else reason.decode(),
        threshold=limits.threshold,
        max_iterations=limits.max_iterations,
        score=best and best["score"],
        path=best and best["path"],
        drafts_since_highest=since,
        lacks=summary.get(b"lacks", b"").decode(),
        error=error and (error["detail"] or f"it failed: {error['code']}"),
        is_overdue=decided is not None and decided["by"] == "timeout",
    )
    return to_json(told.text)


def decode_snapshot(refinement_id: str, summary: Summary) -> Snapshot:
    """Read the snapshot of a refinement from its summary.

    A member that only a later release can read, such as the `result` with a new kind of score, is
    null here; it stays stored. Raises UnreadableRecord if such a member cannot be null.
    """
    stored = snapshot_json(refinement_id, summary)
    try:
        return Snapshot.model_validate_json(stored, extra=UNKNOWN_FIELDS)
    except ValidationError as error:
        unread = dict.fromkeys(detail["loc"][0] for detail in error.errors())
    with reading("the snapshot"):
        readable = to_json({**from_json(stored), **unread})
        return Snapshot.model_validate_json(readable, extra=UNKNOWN_FIELDS)


def decode_result(stored: bytes | None) -> Result | None:
    """Read the result that is stored. Raises UnreadableRecord if a later release has stored it."""
    if stored is None:
        return None
    with reading("the result"):
        return Result.model_validate_json(stored, extra=UNKNOWN_FIELDS)


def encode_retry(
    refinement_id: str, summary: Summary, change: LimitsChange
) -> tuple[str | bytes | int, ...]:
    """Return the arguments of a retry.

    They are last event, snapshot, new event, limits and number of voided steps. If the refinement
    has not failed, all but the first are empty.
    """
    last = summary[b"last_event"]
    if b"error" not in summary:
        return (last, "", "", "", 0)
    reason = Failure.model_validate_json(summary[b"error"], extra=UNKNOWN_FIELDS)
    limits = change.applied_to(decode_limits(summary[b"limits"]))
    retried = Retried(reason=reason, limits=limits, voided=reason.steps)
    return (
        last,
        snapshot_json(refinement_id, summary),
        _DATA[EventType.RETRIED](retried),
        encode_limits(limits),
        len(retried.voided),
    )


def encode_rating(
    refinement_id: str, summary: Summary, rated: Rated
) -> tuple[str | bytes | int, ...]:
    """Return what a rating takes: the last event, the final snapshot, and the new event."""
    has_ended = _STATUS.get(summary[b"status"]) in TERMINAL
    final = snapshot_json(refinement_id, summary) if has_ended else b""
    return (summary[b"last_event"], final, rated.model_dump_json())


def pending_reviews(summary: Summary) -> list[PendingReview]:
    """Return the open reviews, with times by Redis TIME; none unless paused."""
    if b"review" not in summary:
        return []
    others = from_json(summary.get(b"also_asked", b"[]"))
    first = (summary[b"review"], summary.get(b"approvals", b"[]"))
    paused_at = int(summary[b"paused_at"])
    stored = (first, *((review["asked"], review["approvals"]) for review in others))
    return [_pending(paused_at, asked, approvals) for asked, approvals in stored]


def _pending(paused_at: int, stored: bytes | str, approvals: bytes | str) -> PendingReview:
    asked = Paused.model_validate_json(stored, extra=UNKNOWN_FIELDS)
    return PendingReview(
        **{name: getattr(asked, name) for name in ASKED},
        asked_at=moment(paused_at),
        deadline=moment(paused_at + int(asked.timeout_s * 1000)),
        approvals=tuple(
            DatedApproval.model_validate(approval | {"at": moment(approval["at"])})
            for approval in from_json(approvals)
        ),
    )


ASKED = tuple(PendingReview.model_fields.keys() & Paused.model_fields.keys())
"""What a pending review says that its event says as well."""


def _waiting(summary: Summary) -> bytes:
    """Return the wait that began last, until its step has a reply; none during a pause."""
    if b"review" in summary or b"waiting" not in summary:
        return b"null"
    waits = from_json(summary[b"waiting"])
    return to_json(waits[-1]) if waits else b"null"


def paired(fields: Sequence[bytes]) -> Summary:
    """Return a hash, or the fields of a stream entry, from the flat list of a script."""
    return dict(zip(fields[::2], fields[1::2], strict=True))


def ends(entry: Summary) -> bool:
    """Return whether an entry of a journal is terminal."""
    return entry[b"type"] in _ENDINGS


def has_ended(entries: Sequence[Summary]) -> bool:
    """Return whether a journal has a terminal entry that no retry follows."""
    for entry in reversed(entries):
        if entry[b"type"] in _ENDINGS or entry[b"type"] == _RETRIED:
            return entry[b"type"] != _RETRIED
    return False


def ended_as(entry: Summary) -> bytes:
    """Return the snapshot that the entry after a terminal one keeps."""
    return entry[b"ended"]


def number_of(entry_id: bytes) -> int:
    """Return the number of a stream entry, `n` of `n-0`."""
    return int(entry_id.partition(b"-")[0])


_EVENT = b'{"event":%d,"at":%b,"type":"%b","data":%b}'


def stored_event(entry_id: bytes, entry: Summary, final: bytes, is_last: bool) -> StoredEvent:
    """Return one stream entry as an event, unread; `final` is the snapshot in a terminal one."""
    number, kind = number_of(entry_id), entry[b"type"]
    stored = _EVENT % (number, json_moment(entry[b"at"]), kind, _data(entry, final))
    return StoredEvent(number, kind, stored, is_last)


def published_events(message: bytes) -> tuple[StoredEvent, ...]:
    """Return the entries in a message of `publish` in journal.lua as events; none is terminal."""
    return tuple([_published(*line.split(b" ", 3)) for line in message.split(b"\n") if line])


def _published(number: bytes, at: bytes, kind: bytes, data: bytes = b"{}") -> StoredEvent:
    stored = _EVENT % (int(number), json_moment(at), kind, data)
    return StoredEvent(int(number), kind, stored)


def decoded_event(entry_id: bytes, entry: Summary, final: bytes) -> Event | None:
    """Return the same event, decoded; None if its type is of a later release.

    Raises UnreadableRecord for data of a later release.
    """
    kind = _TYPES.get(entry[b"type"])
    if kind is None:
        return None
    with reading(f"event {number_of(entry_id)}, {kind}"):
        data = DATA_OF[kind].model_validate_json(_data(entry, final), extra=UNKNOWN_FIELDS)
    return Event(
        event=number_of(entry_id),
        type=kind,
        at=moment(int(entry[b"at"])),
        data=cast("EventData", data),
    )


def _data(entry: Summary, final: bytes) -> bytes:
    return final if entry[b"type"] in _ENDINGS else entry.get(b"data", b"{}")


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Raise UnreadableRecord where stored data is not what this release knows."""
    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = "/".join(map(str, first["loc"]))
        kind = first["ctx"]["tag"] if first["type"] == "union_tag_invalid" else ""
        said = f"the kind {kind} is not known here" if kind else first["msg"]
        raise UnreadableRecord(f"{what}: {where}: {said}", kind) from None


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
