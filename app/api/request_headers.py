"""Request headers and parameters that are more than a number: read here, refused here."""

import re
from collections.abc import Container, Iterator

from app.contract.errors import MalformedHeader

MAX_WAIT_S = 60
MAX_KEY = 255
MAX_LIST = 2_000

_NUMBER = re.compile(r"[0-9]{1,18}")
_PREFERENCE = re.compile(r"""\s*(?P<name>[^\s=;,"]+)\s*(?:=\s*(?P<value>"[^"]*"|[^\s;,"]*))?""")
_PARTS = re.compile(r"""(?:"(?:\\.|[^"\\])*"|[^,"])+""")
_TAG = re.compile(r'(?:W/)?"(?P<event>[0-9]{1,18})"')
_PRINTABLE = re.compile(r"[\x20-\x7e]+")
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"')


class Anything:
    """What `If-None-Match: *` names."""

    def __contains__(self, _: object) -> bool:
        return True


def event_number(last_event_id: str) -> int:
    """Return the number of an event that `Last-Event-ID` gives, else MalformedHeader."""
    if not _NUMBER.fullmatch(last_event_id):
        raise MalformedHeader("Last-Event-ID is the number of an event, such as 7")
    return int(last_event_id)


def preferred_wait_s(prefer: list[str]) -> int | None:
    """Return the seconds of `Prefer: wait=N` (RFC 7240), or None without one.

    The first `wait` counts and unknown preferences are ignored. MalformedHeader for a wait that is
    no whole number of seconds, or longer than 60.
    """
    for preference in _split(prefer):
        read = _PREFERENCE.match(preference)
        if read and read["name"].lower() == "wait":
            return _wait_s((read["value"] or "").strip('"'))
    return None


def _wait_s(value: str) -> int:
    if not _NUMBER.fullmatch(value):
        raise MalformedHeader("Prefer: wait takes a whole number of seconds, such as wait=30")
    if int(value) > MAX_WAIT_S:
        raise MalformedHeader(f"Prefer: wait is at most {MAX_WAIT_S} seconds")
    return int(value)


def seen_events(if_none_match: list[str]) -> Container[int] | None:
    """Return the events that `If-None-Match` names, or None without that header.

    A tag that this server never gave out names no event.
    """
    tags = [tag.strip() for tag in _split(if_none_match)]
    if not tags:
        return None
    if "*" in tags:
        return Anything()
    return frozenset(int(read["event"]) for tag in tags if (read := _TAG.fullmatch(tag)))


def idempotency_key(value: str | None) -> str | None:
    """Return the key without its quotes, else MalformedHeader."""
    if value is None:
        return None
    quoted = _QUOTED.fullmatch(value)
    key = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else value
    if not _PRINTABLE.fullmatch(key) or len(key) > MAX_KEY:
        raise MalformedHeader(f"Idempotency-Key has 1 to {MAX_KEY} printable ASCII characters")
    return key


def accepted(accept: list[str], offered: tuple[str, ...]) -> str | None:
    """Return the offered media type that `Accept` (RFC 9110) likes best, the first among equals.

    None when none of them is acceptable; without the header everything is.
    """
    ranges = [_media_range(part) for part in _split(accept)]
    if not ranges:
        return offered[0]
    best = max(offered, key=lambda media_type: _quality(media_type, ranges))
    return best if _quality(best, ranges) > 0 else None


def _media_range(text: str) -> tuple[str, float]:
    name, *parameters = (part.strip().lower() for part in text.split(";"))
    weights = [parameter[2:] for parameter in parameters if parameter.startswith("q=")]
    try:
        return name, float(weights[0]) if weights else 1.0
    except ValueError:
        return name, 0.0


def _quality(media_type: str, ranges: list[tuple[str, float]]) -> float:
    main = media_type.partition("/")[0]
    for wanted in (media_type, f"{main}/*", "*/*"):  # the most specific range decides
        weights = [weight for name, weight in ranges if name == wanted]
        if weights:
            return max(weights)
    return 0.0


def _split(values: list[str]) -> Iterator[str]:
    for value in values:
        if len(value) > MAX_LIST:  # what follows is quadratic in the worst case
            raise MalformedHeader(f"a header with a list is at most {MAX_LIST} characters long")
        yield from (part for part in _PARTS.findall(value) if part.strip())
