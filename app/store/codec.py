"""How values become bytes in Redis, and bytes values again."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import to_json

from app.contract.events import DATA_OF, EventType, Queued
from app.contract.judgement import Usage
from app.contract.limits import Limits
from app.contract.requests import ModelChoice, RefinementRequest
from app.contract.reviews import Review, Reviewed
from app.contract.snapshot import Best, Failure, IterationScore, Result
from app.contract.status import Status, StopReason
from app.store.state import Entry, Fields, State, Submitted

_DATA: dict[EventType, TypeAdapter[Any]] = {
    kind: TypeAdapter(model) for kind, model in DATA_OF.items()
}
_FIELDS: dict[str, TypeAdapter[Any]] = {
    "phase": TypeAdapter(tuple[str, ...]),
    "iteration": TypeAdapter(int),
    "best": TypeAdapter(Best),
    "best_passed": TypeAdapter(bool),
    "scores": TypeAdapter(tuple[IterationScore, ...]),
    "usage": TypeAdapter(Usage),
    "result": TypeAdapter(Result),
    "error": TypeAdapter(Failure),
}
_LIMITS = TypeAdapter(Limits)
_MODELS = TypeAdapter(dict[str, ModelChoice])
_STATUS = {status.encode(): status for status in Status}
_REASON: dict[bytes, StopReason | None] = {
    b"-": None,
    **{reason.encode(): reason for reason in StopReason},
}


def encode_fields(fields: Fields) -> list[str | bytes]:
    """Return name and value of every field that is given, one after the other."""
    encoded: list[str | bytes] = []
    for name, adapter in _FIELDS.items():
        value = getattr(fields, name)
        if value is not None:
            encoded += name, adapter.dump_json(value)
    if fields.stop_reason is not None:
        encoded += "stop_reason", fields.stop_reason
    return encoded


def encode_entries(entries: Sequence[Entry]) -> list[str | bytes]:
    """Return type and data of every entry, one after the other; no data is empty."""
    encoded: list[str | bytes] = []
    for entry in entries:
        data = b"" if entry.data is None else _DATA[entry.type].dump_json(entry.data)
        encoded += entry.type, data
    return encoded


def encode_append(
    entries: Sequence[Entry], fields: Fields, to: Status | None
) -> tuple[str | bytes | int, ...]:
    """Return the arguments of an append that say what is written.

    Raises ValueError unless there are entries, a terminal one exactly when `to` is terminal, and
    `refinement.paused` exactly when `to` is paused.
    """
    ends = any(entry.type.is_terminal for entry in entries)
    if not entries or ends != (to is not None and to.is_terminal):
        raise ValueError("an append needs entries, and a terminal one exactly when it ends")
    asks = [entry.type for entry in entries].count(EventType.PAUSED)
    if asks != (to is Status.PAUSED):
        raise ValueError("an append asks for one review exactly when it pauses")
    encoded = encode_fields(fields)
    return (to or "", len(encoded), *encoded, *encode_entries(entries))


def encode_said(review: Review) -> bytes:
    """Return the data of `refinement.reviewed` without the key, which review.lua knows."""
    said = Reviewed(key="", by="reviewer", **review.model_dump(exclude={"path"}))
    return said.model_dump_json(exclude={"key"}).encode()


def decode_state(reply: bytes, known: State | None) -> State:
    """Read what prelude.lua's `state` wrote, without its code; `known` holds limits left out."""
    status, last, stopping, finish, seq, limits = reply.split(b" ", 5)
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
    )


def encode_limits(limits: Limits) -> bytes:
    """Return limits as they are stored."""
    return _LIMITS.dump_json(limits)


@lru_cache(maxsize=1024)
def decode_limits(stored: bytes) -> Limits:
    """Read limits; most refinements share a few."""
    return _LIMITS.validate_json(stored)


def encode_submitted(submitted: Submitted) -> tuple[bytes, bytes]:
    """Return the request and the models as they are stored."""
    request = submitted.request.model_dump_json(by_alias=True)
    return request.encode(), _MODELS.dump_json(dict(submitted.models))


def encode_queued(queued: Queued) -> bytes:
    """Return the data of the first entry, which create.lua writes."""
    return _DATA[EventType.QUEUED].dump_json(queued)


def decode_request(stored: bytes) -> RefinementRequest:
    """Read a request."""
    return RefinementRequest.model_validate_json(stored)


def decode_models(stored: bytes) -> dict[str, ModelChoice]:
    """Read the model of each role."""
    return _MODELS.validate_json(stored)


def encode_metadata(metadata: dict[str, str]) -> bytes:
    """Return metadata as they are stored."""
    return to_json(metadata)


def moment(milliseconds: int) -> datetime:
    """Return the moment that Redis counts in milliseconds since 1970."""
    seconds, rest = divmod(milliseconds, 1000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest * 1000)


def json_moment(milliseconds: bytes | None) -> bytes:
    """Return such a moment as the contract's JSON has it, or null."""
    return b"null" if milliseconds is None else to_json(moment(int(milliseconds)))
