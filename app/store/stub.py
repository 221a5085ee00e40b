"""The stub that Redis keeps of an archived record: what a list shows of it, in few bytes."""

import zlib
from collections.abc import Mapping, Sequence
from itertools import count, takewhile
from typing import Any

from pydantic_core import from_json, to_json

from app.contract.judgement import Usage
from app.store.redis.codec import Summary, decode_limits

MILLION = 1_000_000
MOST_SCORES = 10
SMALL_VALUE = 64
"""Bytes up to which Redis stores the values of a hash side by side, in a third of the memory."""

WORDS = b',null,"passed","max_iterations","best_effort","threshold_met","iterative",['
"""What most stubs have, for the compression; what is likely is at the end."""

_USAGE = tuple(Usage.model_fields)
_TIMES = (b"started_at", b"ended_at", b"expires_at")
_TEXTS = (b"strategy", b"stop_reason", b"outcome")
_RARE = (b"parent", b"custom_id", b"priority")


def encode_stub(summary: Summary) -> Summary:
    """Return the fields with what a list shows of an archived record, beside those of scripts.

    There is no text but the excerpt, no path that a client gave names in, and at most the last
    `MOST_SCORES` scores.
    """
    title = summary.get(b"excerpt", b"null")
    return {**_pieces(b"stub", _packed(summary)), **_pieces(b"excerpt", title)}


def with_stub(summary: Summary) -> Summary:
    """Return the summary of a refinement for a list, also of an archived one."""
    if b"stub" not in summary:
        return summary
    decompressor = zlib.decompressobj(-zlib.MAX_WBITS, zdict=WORDS)
    members = from_json(decompressor.decompress(_joined(b"stub", summary)))
    created, times, texts, last, iteration, most, threshold, best, scores, usage, rare = members
    moments = zip(_TIMES, times, strict=True)
    words = {**dict(zip(_TEXTS, texts, strict=True)), **{n.encode(): rare.get(n) for n in _NAMES}}
    error = rare.get("error")
    return {
        b"metadata": b"{}",
        **summary,
        **{name: b"%d" % (created + after) for name, after in moments if after is not None},
        **{name: word.encode() for name, word in words.items() if word is not None},
        **({} if iteration is None else {b"iteration": b"%d" % iteration}),
        **({} if usage is None else {b"usage": to_json(dict(zip(_USAGE, usage, strict=False)))}),
        **({} if error is None else {b"error": to_json({"code": error, "detail": ""})}),
        b"last_event": b"%d" % last,
        b"excerpt": _joined(b"excerpt", summary),
        b"created_at": b"%d" % created,
        b"limits": to_json({"max_iterations": most, "threshold": threshold}),
        b"best": to_json(best and {**_placed(*best), "sha256": ""}),
        b"scores": to_json(_listed(scores)),
    }


_NAMES = tuple(name.decode() for name in _RARE)


def _packed(summary: Summary) -> bytes:
    def text(name: bytes) -> str | None:
        return summary[name].decode() if name in summary else None

    def decoded(name: bytes) -> Any:
        return from_json(summary.get(name, b"null"))

    created, limits = int(summary[b"created_at"]), decode_limits(summary[b"limits"])
    error = decoded(b"error")
    rare = {name: text(name.encode()) for name in _NAMES} | {"error": error and error["code"]}
    members = (
        created,
        [int(summary[name]) - created if name in summary else None for name in _TIMES],
        [text(name) for name in _TEXTS],
        int(summary[b"last_event"]),
        decoded(b"iteration"),
        limits.max_iterations,
        limits.threshold,
        decoded(b"best") and _place(decoded(b"best")),
        _in_short((decoded(b"scores") or [])[-MOST_SCORES:]),
        decoded(b"usage") and [decoded(b"usage").get(name) for name in _USAGE],
        {name: word for name, word in rare.items() if word is not None},
    )
    compressor = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS, zdict=WORDS)
    return compressor.compress(to_json(members)) + compressor.flush()


def _in_short(scores: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the places of drafts, in one list if they are those of one search."""
    places = [_place(score) for score in scores]
    first = places[0][0] if places else 0
    is_one_search = all(
        place[:1] == [first + n] and len(place) == 2 for n, place in enumerate(places)
    )
    return [first, *(score for _, score in places)] if is_one_search else places


def _listed(places: Sequence[Any]) -> list[dict[str, Any]]:
    if places and isinstance(places[0], list):
        return [_placed(*place) for place in places]
    return [_placed(places[0] + number, score) for number, score in enumerate(places[1:])]


def _place(score: Mapping[str, Any]) -> list[Any]:
    """Return number and score of a draft, in millionths if it is so many; and 0 for a part."""
    number, exact = score["iteration"], score["score"]
    millionths = None if exact is None else round(exact * MILLION)
    short = millionths if millionths is None or millionths / MILLION == exact else exact
    return [number, short] if score["path"] == f"iterations/{number}" else [number, short, 0]


def _placed(number: int, short: Any, *of_part: int) -> dict[str, Any]:
    score = short / MILLION if isinstance(short, int) else short
    return {
        "iteration": number,
        "path": "" if of_part else f"iterations/{number}",
        "score": score,
    }


def _pieces(name: bytes, content: bytes) -> Summary:
    starts = range(0, len(content), SMALL_VALUE)
    return {
        name + (b"%d" % place if place else b""): content[start : start + SMALL_VALUE]
        for place, start in enumerate(starts)
    }


def _joined(name: bytes, fields: Summary) -> bytes:
    more = takewhile(bool, (fields.get(name + b"%d" % place) for place in count(1)))
    return b"".join([fields[name], *filter(None, more)])
