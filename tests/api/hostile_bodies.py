"""Bodies that are costly to refuse, for every field of every body that the API reads."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from resource import RUSAGE_SELF, getrusage
from typing import Any, NamedTuple

from app.api.dependencies import MAX_MEMBERS, parsed
from app.contract import Contract
from app.contract.access import KeyRequest, ProviderKeyRequest, Quotas, Rotation, TokenRequest
from app.contract.batches import BatchHead, BatchItem, BatchMessage, BatchResult
from app.contract.errors import InvalidRequest
from app.contract.events import EventPage, StepDelta
from app.contract.limits import LimitsChange
from app.contract.overlays import PartialRequest
from app.contract.ratings import RatingRequest
from app.contract.requests import RefinementRequest
from app.contract.reviews import PauseRequest, ReviewDecision
from app.contract.webhooks import EndpointRequest, WebhookMessage
from app.settings import Settings

CONTRACTS = (
    *(BatchHead, BatchItem, BatchMessage, BatchResult, EndpointRequest, EventPage, KeyRequest),
    *(LimitsChange, PartialRequest, PauseRequest, ProviderKeyRequest, Quotas, RatingRequest),
    *(RefinementRequest, ReviewDecision, Rotation, StepDelta, TokenRequest, WebhookMessage),
)
LARGEST: int = Settings.model_fields["max_body_bytes"].default

LONG_S = 0.3

Wrap = Callable[[bytes], bytes]
Schema = Mapping[str, Any]


class Hostile(NamedTuple):
    """A body and where in it the costly value is."""

    contract: type[Contract]
    place: str
    body: bytes


def of_every_field(values: int) -> Iterator[Hostile]:
    """Yield some for every field of every body, most of that many values each."""
    objects, numbers = _filled(b"{}", values), _filled(b"0", values)
    members = b"{%b}" % b",".join(b'"%d":0' % number for number in range(MAX_MEMBERS))
    seen: set[str] = set()
    for contract in CONTRACTS:
        schema = contract.model_json_schema()
        for place, holds_many, wrap in _places(schema, schema.get("$defs", {}), "", bytes, seen):
            for value in (objects, numbers, members) if holds_many else (objects,):
                yield Hostile(contract, place, wrap(value))


def largest() -> Iterator[Hostile]:
    """Yield bodies of the greatest size that the API reads."""
    for name in (b"draft", b"tools", b"metadata", b"unknown"):
        for item in (b"{}", b"[]", b"0", b'""', b'{"a":{"b":[0]}}', b"[[[[]]]]"):
            body = b'{"%b":%b}' % (name, _filled(item, (LARGEST - 100) // (len(item) + 1)))
            yield Hostile(RefinementRequest, item.decode(), body)
    for text in (b"x", b",", b"[", rb"\"", rb"\\", rb"\u00e4", rb"\u0000", b"\xf0\x9f\x99\x82"):
        body = b'{"draft":"%b"}' % (text * ((LARGEST - 100) // len(text)))
        yield Hostile(RefinementRequest, text.decode(), body)
    yield Hostile(RefinementRequest, "members", b'{%b"b":0}' % (b'"a":0,' * (LARGEST // 6 - 2)))


def _filled(item: bytes, count: int) -> bytes:
    return b"[%b%b]" % ((item + b",") * (count - 1), item)


def _places(
    schema: Schema, definitions: Schema, place: str, wrap: Wrap, seen: set[str]
) -> Iterator[tuple[str, bool, Wrap]]:
    """Yield every field, whether it may hold many values, and how a value gets there.

    A definition is entered once.
    """
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        if name not in seen:
            seen.add(name)
            yield from _places(definitions[name], definitions, place, wrap, seen)
        return
    yield place, schema.get("type") in (None, "array", "object"), wrap
    for branch in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _places(branch, definitions, place, wrap, seen)
    properties = schema.get("properties", {})
    kind = properties.get("kind", {}).get("const")
    told = b'"kind":"%b",' % kind.encode() if kind else b""
    for name, held in properties.items():
        inside = _inside(wrap, b'{%b"%b":' % (told, name.encode()), b"}")
        yield from _places(held, definitions, f"{place}/{kind or ''}/{name}", inside, seen)
    if "items" in schema:
        inside = _inside(wrap, b"[", b"]")
        yield from _places(schema["items"], definitions, f"{place}/0", inside, seen)
    if isinstance(held := schema.get("additionalProperties"), dict):
        inside = _inside(wrap, b'{"a":', b"}")
        yield from _places(held, definitions, f"{place}/a", inside, seen)


def _inside(wrap: Wrap, before: bytes, after: bytes) -> Wrap:
    return lambda value: wrap(before + value + after)


def timed(each: Hostile) -> tuple[float, str]:
    """Parse a body; return the CPU time in seconds that it took, and why it was refused.

    A time that seems long is the shortest of three: the garbage of other tests may be collected
    meanwhile, and a busy machine counts its own delays.
    """
    took_s, said = _timed(each)
    if took_s > LONG_S:
        took_s = min(took_s, _timed(each)[0], _timed(each)[0])
    return took_s, said


def _timed(each: Hostile) -> tuple[float, str]:
    began, said = time.thread_time(), ""
    try:
        parsed(each.contract, each.body)
    except InvalidRequest as refusal:
        said = refusal.detail  # the refusal itself would keep this frame, and the body
    return time.thread_time() - began, said


def _peak_mib() -> float:
    return getrusage(RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1024 * 1024)


def main() -> None:
    """Print the longest CPU time in seconds, and the growth of the memory in MiB."""
    before = _peak_mib()
    slowest = max(timed(each)[0] for each in largest())
    sys.stdout.write(f"{slowest} {_peak_mib() - before}\n")


if __name__ == "__main__":
    main()
