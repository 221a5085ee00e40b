"""Stored bytes become a client's JSON by concatenation; nothing large is parsed.

The order of the members is the contract's, so that both ways of writing a snapshot are equal.
"""

from collections.abc import Mapping, Sequence
from typing import cast

from pydantic_core import to_json

from app.contract.events import DATA_OF, Event, EventData, EventType
from app.contract.judgement import Usage
from app.contract.reviews import Paused, PendingReview
from app.contract.snapshot import Links
from app.contract.status import TERMINAL, Status
from app.store.codec import decode_limits, json_moment, moment
from app.store.state import StoredEvent

Summary = Mapping[bytes, bytes]

_EMPTY = {
    b"best": b"null",
    b"scores": b"[]",
    b"usage": to_json(Usage()),
    b"phase": b"[]",
    b"iteration": b"null",
    b"error": b"null",
}


def links(refinement_id: str) -> Links:
    """Return where to go from a refinement."""
    at = f"/v1/refinements/{refinement_id}"
    return Links(
        self=at,
        events=f"{at}/events",
        iterations=f"{at}/iterations",
        request=f"{at}/request",
        cancel=f"{at}/cancel",
        finish=f"{at}/finish",
        reviews=f"{at}/reviews",
        report=f"{at}/report",
        **{"continue": f"{at}/continue"},
    )


def snapshot_json(refinement_id: str, summary: Summary) -> bytes:
    """Return the snapshot; `passed` and `result` are shown once the refinement has ended."""
    limits = decode_limits(summary[b"limits"])
    has_ended = Status(summary[b"status"].decode()) in TERMINAL
    judged = has_ended and b"best" in summary

    def stored(name: bytes) -> bytes:
        return summary.get(name, _EMPTY[name])

    def quoted(name: bytes) -> bytes:
        return b'"%b"' % summary[name] if name in summary else b"null"

    members = {
        b"id": b'"%b"' % refinement_id.encode(),
        b"status": quoted(b"status"),
        b"passed": summary.get(b"best_passed", b"null") if judged else b"null",
        b"stop_reason": quoted(b"stop_reason"),
        b"strategy": quoted(b"strategy"),
        b"phase": stored(b"phase"),
        b"iteration": stored(b"iteration"),
        b"max_iterations": to_json(limits.max_iterations),
        b"threshold": to_json(limits.threshold),
        b"best": stored(b"best"),
        b"scores": stored(b"scores"),
        b"usage": stored(b"usage"),
        b"result": summary.get(b"result", b"null") if has_ended else b"null",
        b"error": stored(b"error"),
        b"review": _review(summary),
        b"parent": quoted(b"parent"),
        b"created_at": json_moment(summary[b"created_at"]),
        b"started_at": json_moment(summary.get(b"started_at")),
        b"ended_at": json_moment(summary.get(b"ended_at")),
        b"expires_at": json_moment(summary.get(b"expires_at")),
        b"last_event": summary[b"last_event"],
        b"metadata": summary[b"metadata"],
        b"links": links(refinement_id).model_dump_json().encode(),
    }
    return b"{" + b",".join(b'"%b":%b' % member for member in members.items()) + b"}"


def _review(summary: Summary) -> bytes:
    """Return what is asked of a reviewer, with moments by Redis time; null unless paused."""
    if b"review" not in summary:
        return b"null"
    asked = Paused.model_validate_json(summary[b"review"])
    pending = PendingReview(
        key=asked.key,
        path=asked.path,
        question=asked.question,
        on_timeout=asked.on_timeout,
        asked_at=moment(int(summary[b"paused_at"])),
        deadline=moment(int(summary[b"review_until"])),
    )
    return pending.model_dump_json().encode()


def paired(fields: Sequence[bytes]) -> Summary:
    """Return a hash, or the fields of a stream entry, from the flat list that a script returns."""
    return dict(zip(fields[::2], fields[1::2], strict=True))


def has_ended(entries: Sequence[tuple[bytes, Summary]]) -> bool:
    """Whether the last of these entries of a journal is a terminal one."""
    return bool(entries) and EventType(entries[-1][1][b"type"].decode()).is_terminal


def stored_event(entry_id: bytes, entry: Summary, final: bytes) -> StoredEvent:
    """Return one stream entry as an event; `final` is the snapshot that a terminal one carries."""
    number, kind, data = _parts(entry_id, entry, final)
    parts = (number, kind.encode(), json_moment(entry[b"at"]), data)
    return StoredEvent(number, kind, b'{"event":%d,"type":"%b","at":%b,"data":%b}' % parts)


def decoded_event(entry_id: bytes, entry: Summary, final: bytes) -> Event:
    """Return the same event as a value."""
    number, kind, data = _parts(entry_id, entry, final)
    at = moment(int(entry[b"at"]))
    carried = cast("EventData", DATA_OF[kind].model_validate_json(data))
    return Event(event=number, type=kind, at=at, data=carried)


def _parts(entry_id: bytes, entry: Summary, final: bytes) -> tuple[int, EventType, bytes]:
    kind = EventType(entry[b"type"].decode())
    data = final if kind.is_terminal else entry.get(b"data", b"{}")
    return int(entry_id.partition(b"-")[0]), kind, data
