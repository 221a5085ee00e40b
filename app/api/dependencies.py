"""Dependencies of the routes: collaborators, and the parts of a request, parsed and validated.

A body is JSON, validated in bounded time and memory, with a pointer to each error.
"""

import re
from collections import deque
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from hashlib import sha256
from itertools import islice
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Depends, Header, Path, Query, Request
from fastapi.dependencies.models import Dependant
from pydantic import BeforeValidator, Field, ValidationError
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import ErrorDetails, SchemaValidator, from_json, to_json

from app.api.problems import NotAcceptable, UnsupportedMediaType, invalid_query
from app.contract import Contract, Instant, patterns
from app.contract.access import Rotation
from app.contract.batches import BATCH_ID
from app.contract.errors import FieldError, InvalidRequest, MalformedHeader
from app.contract.invalid_values import A_DATE, in_one, is_of_type, sentence_of, suggested
from app.contract.limits import LimitsChange
from app.contract.object_drafts import flaws_of_draft
from app.contract.overlays import Overlay, PartialRequest, RequestLayer, named_preset
from app.contract.ratings import RatingRequest
from app.contract.requests import RefinementRequest
from app.contract.reviews import PauseRequest, ReviewDecision
from app.contract.snapshot import Selected
from app.contract.status import RefinementOutcome, Status
from app.service.admission import ModelRoles
from app.service.service import Service
from app.service.watching import Watching
from app.store import Store
from app.store.cells import Cells

MAX_VALUES = 100_000
"""Values of a body: numbers, strings, lists, objects and literals, on all levels."""

MAX_MEMBERS = 1_000
"""Members of an object."""

FEW_VALUES = 1_000
"""Values of a body whose every error is looked for."""

BUILT_ERRORS = 5_000
"""Errors that are built at most: pydantic has no way to build only the first."""

MAX_ERRORS = 50
MAX_DETAIL = 500
MAX_PART = 200  # characters of a name in a pointer

C = TypeVar("C", bound=Contract)


@dataclass(frozen=True, slots=True)
class RequestBody(Generic[C]):
    """A parsed body, and the SHA-256 (hex) of its bytes."""

    content: C
    sha256: str


async def submission_in(request: Request) -> RequestBody[RefinementRequest]:
    """Return the request for a refinement in a body, laid over the preset that it names.

    Without a name that is the preset `default` of the tenant, if there is one. The hash is that of
    the body as it was sent.
    """
    state = request.scope["state"]
    presets, tenant = state["store"].presets, state["caller"].tenant
    raw = await json_body(request)
    content, digest = raw, sha256(raw).hexdigest()
    default = await presets.default_of(tenant)
    if default or b"preset" in raw or b"\\u" in raw:  # else it names none
        tree = json_in(raw)
        named = {} if default is None else {"preset": default}
        tree = named | tree if isinstance(tree, dict) else {}
        if name := named_preset(tree):
            preset = RequestLayer(await presets.fields(tenant, name), f"the preset {name}")
            request.state.overlay = overlay = Overlay(preset, RequestLayer(tree))
            content = to_json(overlay.fields)
    is_merged = content is not raw
    return RequestBody(parsed(RefinementRequest, content, is_merged=is_merged), digest)


def body_as(
    contract: type[C], *, is_required: bool = True
) -> Callable[[Request], Awaitable[RequestBody[C]]]:
    """Return a dependency that parses a body as `contract`; unless required, none is `{}`."""

    async def read(request: Request) -> RequestBody[C]:
        raw = await json_body(request, is_required=is_required)
        if not raw and not is_required:
            return RequestBody(contract(), sha256().hexdigest())
        return RequestBody(parsed(contract, raw), sha256(raw).hexdigest())

    return read


async def json_body(request: Request, *, is_required: bool = True) -> bytes:
    """Return the body; it must say that it is JSON, unless it is empty and not required."""
    if is_required:
        _require_json(request)
    # Request.body() would keep it for as long as the response takes, a minute with `wait`.
    raw = b"".join([part async for part in request.stream()])
    if raw and not is_required:
        _require_json(request)
    return raw


def _require_json(request: Request) -> None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json" and not (
        media_type.startswith("application/") and media_type.endswith("+json")
    ):
        raise UnsupportedMediaType("Content-Type must be application/json")
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise UnsupportedMediaType("Content-Encoding must be identity: send the body as it is")


def json_in(raw: bytes, *, is_merged: bool = False) -> Any:
    """Return the JSON of a body, else raise InvalidRequest; its limits are those of `parsed`."""
    if (values := value_count(raw)) > MAX_VALUES:
        raise _refusal(f"the body must have at most {MAX_VALUES} values")
    tree = _json_of(raw, is_merged=is_merged)
    if values > FEW_VALUES:
        _require_few_members(tree)
    for at in REQUESTS_IN:
        if isinstance(_member(tree, *at, "draft"), dict):
            _require_kept(raw, at)
    return tree


REQUESTS_IN: Sequence[Sequence[str]] = ((), ("request",), ("batch", "defaults"))
"""Where a body, or a line of a batch, has a request."""


def _member(tree: Any, *names: str) -> Any:
    for name in names:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


def _require_kept(raw: bytes, at: Sequence[str]) -> None:
    """Raise InvalidRequest for what reading and writing would change in a draft, an object."""
    flaws = islice(flaws_of_draft(raw.decode(), at), MAX_ERRORS)
    errors = tuple(FieldError(pointer=pointer, detail=why) for pointer, why in flaws)
    if errors:
        raise InvalidRequest.at(*errors)


def parsed(contract: type[C], raw: bytes, *, is_merged: bool = False) -> C:
    """Return the body as `contract`, else raise InvalidRequest with a pointer to each error.

    The body must be JSON (RFC 8259) in UTF-8 with at most 100,000 values on at most 200 levels, and
    1,000 members per object; NaN, infinity and lone surrogates are rejected. Of duplicate keys the
    last counts; a draft that is an object has none, and no number that would change. Types are not
    converted: "3" is not a number. In a body of more than 1,000 values, only the first wrong item
    of a list or map is reported. What `is_merged` of several texts may have a number that no
    double holds, which is written as `Infinity`: the error is at its field.
    """
    tree = json_in(raw, is_merged=is_merged)
    try:
        content: C = _failing_fast(contract).validate_json(raw, strict=True)
        return content
    except ValidationError as invalid:
        found = _built(invalid)
    if value_count(raw) <= FEW_VALUES:
        found = _all_errors(contract, raw)
    wrong = _by_pointer(found, tree)
    errors = (
        FieldError(
            pointer=pointer,
            detail=_shortened(in_one(sentence_of(error, contract) for error in at), MAX_DETAIL),
        )
        for pointer, at in islice(wrong.items(), MAX_ERRORS)
    )
    raise InvalidRequest.at(*errors, unlisted=max(0, len(wrong) - MAX_ERRORS))


def _by_pointer(found: Sequence[ErrorDetails], tree: Any) -> Mapping[str, list[ErrorDetails]]:
    """Return what is wrong with each value, in the order of the body.

    Branches of a union that allow no object or list at all are left out where the inside of one is
    wrong.
    """
    at: dict[str, list[ErrorDetails]] = {}
    for error in _own_errors(found):
        at.setdefault(_pointer_to(error, tree), []).append(error)
    outer = {
        pointer[:end] for pointer in at for end, character in enumerate(pointer) if character == "/"
    }
    return {
        pointer: wrong
        for pointer, wrong in at.items()
        if pointer not in outer or not all(map(is_of_type, wrong))
    }


def _own_errors(found: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Return the errors that do not only follow from others, as of a list without invalid items."""
    outer = {error["loc"][:depth] for error in found for depth in range(len(error["loc"]))}
    return [
        error
        for error in found
        if error["type"] != "default_factory_not_called"
        and not (error["type"] == "too_short" and error["loc"] in outer)
    ]


def value_count(raw: bytes) -> int:
    """Return how many values the JSON has, or a higher number, in about 10 ns per byte.

    Parsed, a value takes up to 150 times its size.
    """
    values = _separators(raw)
    if values <= FEW_VALUES:
        return values
    plain = raw.replace(b"\\\\", b"").replace(b'\\"', b"")  # what is left of a quote ends a string
    if plain.count(b'"') > 4 * MAX_VALUES:  # two for a name, two for its value
        return values
    return _separators(b"".join(plain.split(b'"')[::2]))


def _separators(raw: bytes) -> int:
    return 1 + raw.count(b",") + raw.count(b"[") + raw.count(b"{")


@cache
def _failing_fast(contract: type[Contract]) -> SchemaValidator:
    """Return a validator that ends a list or map with its first wrong item."""
    # Without the last argument, the finished validators of nested models would be used.
    return SchemaValidator(_fail_fast(contract.__pydantic_core_schema__), None, False)


def _fail_fast(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_fail_fast(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if not isinstance(kind, str):  # schemas by name, of fields or of choices
        return {name: _fail_fast(each) for name, each in schema.items()}
    changed = {
        name: each if name in ("default", "metadata", "serialization") else _fail_fast(each)
        for name, each in schema.items()
    }
    is_many = kind in ("dict", "frozenset", "list", "set", "tuple")
    return changed | {"fail_fast": True} if is_many else changed


def _all_errors(contract: type[Contract], raw: bytes) -> list[ErrorDetails]:
    try:
        contract.model_validate_json(raw, strict=True)
    except ValidationError as invalid:
        return _built(invalid)
    raise AssertionError("a body is valid or not, however many errors are looked for")


def _built(invalid: ValidationError) -> list[ErrorDetails]:
    if invalid.error_count() > BUILT_ERRORS:
        raise _refusal(f"the body has more than {BUILT_ERRORS} errors")
    return invalid.errors(include_url=False, include_input=False)


def _require_few_members(tree: Any) -> None:
    """Raise InvalidRequest for an object with too many members: each may be an error."""
    pending = deque([("", tree)])
    while pending:
        pointer, value = pending.popleft()
        if isinstance(value, dict):
            if len(value) > MAX_MEMBERS:
                raise _refusal(f"an object must have at most {MAX_MEMBERS} members", pointer)
            pending.extend(
                (f"{pointer}/{_escaped(name)}", held)
                for name, held in value.items()
                if held and isinstance(held, dict | list)
            )
        elif isinstance(value, list):
            pending.extend(
                (f"{pointer}/{index}", held)
                for index, held in enumerate(value)
                if held and isinstance(held, dict | list)
            )


def _json_of(raw: bytes, *, is_merged: bool) -> Any:
    try:
        return from_json(raw, allow_inf_nan=is_merged)
    except ValueError as error:
        why = str(error) if raw.strip() else "it is empty; send an object, such as {}"
        raise _refusal(f"the body is not JSON: {why}") from None


def _refusal(detail: str, pointer: str = "") -> InvalidRequest:
    return InvalidRequest.at(FieldError(pointer=pointer, detail=detail))


def _pointer_to(error: ErrorDetails, tree: Any) -> str:
    inside = getattr(error.get("ctx", {}).get("error"), "pointer", "")
    return _pointer(error["loc"], tree, is_missing=error["type"] == "missing") + inside


def _pointer(loc: Sequence[int | str], tree: Any, *, is_missing: bool) -> str:
    """Return the JSON Pointer of `loc` in the body; parts that name a type are left out."""
    pointer = ""
    for depth, part in enumerate(loc, start=1):
        is_there = part in tree if isinstance(tree, dict) else _is_index(part, tree)
        if is_there:
            tree = tree[part]
        elif not (is_missing and depth == len(loc)):
            continue
        pointer += f"/{_escaped(part)}"
    return pointer


def _escaped(part: int | str) -> str:
    return _shortened(str(part), MAX_PART).replace("~", "~0").replace("/", "~1")


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}..."


def _is_index(part: int | str, tree: Any) -> bool:
    return isinstance(tree, list) and isinstance(part, int) and part < len(tree)


MAX_WAIT_S = 60
MAX_KEY = 255
MAX_LIST = 2_000
MOST_EVENTS = 10**18  # more than any journal has

_NUMBER = re.compile(r"[0-9]{1,18}")
_PREFERENCE = re.compile(r"""\s*(?P<name>[^\s=;,"]+)\s*(?:=\s*(?P<value>"[^"]*"|[^\s;,"]*))?""")
_PARTS = re.compile(r"""(?:"(?:\\.|[^"\\])*"|[^,"])+""")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TAG = re.compile(r'(?:W/)?"(?P<event>[0-9]{1,18})"')
_PRINTABLE = re.compile(r"[\x20-\x7e]+")
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"')


def event_number(last_event_id: str) -> int:
    """Return the event number in `Last-Event-ID`, else raise MalformedHeader."""
    if not _NUMBER.fullmatch(last_event_id.rstrip(" \t")):  # the server strips the front only
        raise MalformedHeader("Last-Event-ID must be the number of an event, such as 7")
    return int(last_event_id)


def preferred_wait_s(prefer: list[str]) -> int | None:
    """Return the seconds of `Prefer: wait=N` (RFC 7240), or None without one.

    The first `wait` counts; a longer one than 60 seconds is cut to 60. What cannot be honoured is
    ignored: other preferences, and a wait that is no whole number.
    """
    for preference in _split(prefer):
        read = _PREFERENCE.match(preference)
        if read and read["name"].lower() == "wait":
            wanted = (read["value"] or "").strip('"')
            return min(int(wanted), MAX_WAIT_S) if _NUMBER.fullmatch(wanted) else None
    return None


def seen_events(if_none_match: list[str]) -> Container[int] | None:
    """Return the event numbers in `If-None-Match`, or None without that header.

    Tags of another form than this server's are ignored.
    """
    tags = [tag.strip() for tag in _split(if_none_match)]
    if not tags:
        return None
    if "*" in tags:
        return range(MOST_EVENTS)
    return frozenset(int(read["event"]) for tag in tags if (read := _TAG.fullmatch(tag)))


def versions_in(if_match: list[str]) -> frozenset[int] | None:
    """Return the event numbers in `If-Match`, or None if the header is missing or `*`.

    Weak tags, and tags of another form than this server's, match nothing (RFC 9110, 13.1.1).
    """
    tags = [tag.strip() for tag in _split(if_match)]
    if not if_match or "*" in tags:
        return None
    read = (_TAG.fullmatch(tag) for tag in tags if not tag.startswith("W/"))
    return frozenset(int(tag["event"]) for tag in read if tag)


def idempotency_key(value: str | None) -> str | None:
    """Return the key without its quotes, else raise MalformedHeader."""
    if value is None:
        return None
    quoted = _QUOTED.fullmatch(value)
    key = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else value
    if not _PRINTABLE.fullmatch(key) or len(key) > MAX_KEY:
        raise MalformedHeader(
            f"Idempotency-Key must have 1 to {MAX_KEY} printable ASCII characters"
        )
    return key


def preferred_type(accept: list[str], offered: tuple[str, ...]) -> str | None:
    """Return the offered media type with the highest quality in `Accept` (RFC 9110).

    Of equals it is the first; None if none is acceptable. Without the header all are acceptable.
    """
    ranges = [_media_range(part) for part in _split(accept)]
    if not ranges:
        return offered[0]
    best = max(offered, key=lambda media_type: _quality(media_type, ranges))
    return best if _quality(best, ranges) > 0 else None


Format = TypeVar("Format", bound=str)
Read = TypeVar("Read")


def chosen_format(
    format_: str | None, accept: list[str], offered: Mapping[str, Format], what: str
) -> Format:
    """Return the format that a query names, else the one by `Accept`, of the offered media types.

    Raises NotAcceptable, and InvalidRequest for a name that is not offered; `what` begins the
    sentence about what there is.
    """
    if format_ is None:
        media_type = preferred_type(accept, tuple(offered))
        if media_type is None:
            raise NotAcceptable(f"{what} available as {' or '.join(offered)}")
        return offered[media_type]
    for known in offered.values():
        if known == format_:
            return known
    raise invalid_query({"format": f"must be {' or '.join(offered.values())}"})


def takes_gzip(request: Request) -> bool:
    """Return whether `Accept-Encoding` names gzip, or `*`, as acceptable (RFC 9110, 12.5.3)."""
    given = request.headers.get("accept-encoding", "")[:MAX_LIST]
    weights = dict(map(_media_range, _split([given])))
    return weights.get("gzip", weights.get("*", 0.0)) > 0


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
            raise MalformedHeader(f"a list in a header must have at most {MAX_LIST} characters")
        yield from (part for part in _PARTS.findall(value) if part.strip())


EVENT_STREAM = "text/event-stream"
JSON = "application/json"
Absent = SkipJsonSchema[None]
"""An omitted parameter: a client cannot send null."""

NUMBER = "^[0-9]{1,18}$"


def shared(name: str) -> Callable[[Request], Awaitable[Any]]:
    """Return a dependency on what the server shares with its requests under a name."""

    async def read(request: Request) -> Any:
        return request.scope["state"][name]

    return read


def of_caller(name: str) -> Callable[[Request], Awaitable[Any]]:
    """Return a dependency on an attribute of the `Caller`."""

    async def read(request: Request) -> Any:
        return getattr(request.scope["state"]["caller"], name)

    return read


# A header that may be a list is declared as text, which generators of clients understand, and read
# from the request, where it may stand on several lines.
def _list_in(
    name: str, description: str, read: Callable[[list[str]], Read]
) -> Callable[..., Awaitable[Read]]:
    """Return a dependency on what is read from the values of a header."""

    async def found(
        request: Request,
        _header: Annotated[str | Absent, Header(alias=name, description=description)] = None,
    ) -> Read:
        return read(request.headers.getlist(name))

    return found


async def _idempotency_key(
    idempotency_key_: Annotated[
        str | Absent,
        Header(
            alias="Idempotency-Key",
            json_schema_extra={"pattern": "^[!-~]([ -~]*[!-~])?$", "maxLength": MAX_KEY},
            description="1 to 255 printable characters, quoted or bare. For 24 hours a request with"
            " the same key and body returns the same refinement.",
        ),
    ] = None,
) -> str | None:
    return idempotency_key(idempotency_key_)


async def _after(
    last_event_id: Annotated[
        str | Absent,
        Header(
            alias="Last-Event-ID",
            description="Number of the last event received; overrides `after`.",
            json_schema_extra={"pattern": NUMBER},
        ),
    ] = None,
    after: Annotated[
        int, Query(ge=0, lt=MOST_EVENTS, description="Number of the last event received.")
    ] = 0,
) -> int:
    if last_event_id is not None:
        return event_number(last_event_id)
    return after


async def event_media_type(
    accept: Annotated[list[str], Header(include_in_schema=False)] = [],  # noqa: B006
) -> str:
    return chosen_format(None, accept, {kind: kind for kind in (EVENT_STREAM, JSON)}, "events are")


TheCells = Annotated[Cells, Depends(shared("cells"))]
TheStore = Annotated[Store, Depends(shared("store"))]
TheWatching = Annotated[Watching, Depends(shared("watching"))]
TheService = Annotated[Service, Depends(shared("service"))]
TheModelRoles = Annotated[ModelRoles, Depends(shared("model_roles"))]
Tenant = Annotated[str, Depends(of_caller("tenant"))]
KnownAs = Annotated[tuple[str, ...], Depends(of_caller("reviews_as"))]
ApiKeyId = Annotated[str | None, Depends(of_caller("key_id"))]
RefinementId = Annotated[
    str,
    Path(
        description="`id` in the response of `POST /v1/refinements`.",
        pattern=patterns.REFINEMENT_ID.regex,
        examples=["ref_01JD3Y3V3G5ZC1Q6E0M8W2R9TB"],
    ),
]
Submission = Annotated[RequestBody[RefinementRequest], Depends(submission_in)]
ReviewBody = Annotated[RequestBody[ReviewDecision], Depends(body_as(ReviewDecision))]
RatingBody = Annotated[RequestBody[RatingRequest], Depends(body_as(RatingRequest))]
PartialBody = Annotated[RequestBody[PartialRequest], Depends(body_as(PartialRequest))]
Change = Annotated[RequestBody[LimitsChange], Depends(body_as(LimitsChange))]
PauseBody = Annotated[RequestBody[PauseRequest], Depends(body_as(PauseRequest, is_required=False))]
RotationBody = Annotated[RequestBody[Rotation], Depends(body_as(Rotation, is_required=False))]
RetryBody = Annotated[RequestBody[LimitsChange], Depends(body_as(LimitsChange, is_required=False))]
IdempotencyKey = Annotated[str | None, Depends(_idempotency_key)]
PREFER = "`wait=30`: wait up to 30 seconds for the refinement to end, 60 at most."
IF_MATCH = (
    "`ETag` of the snapshot that the client has seen: if the refinement has changed since, the"
    " answer is 412."
)
IF_NONE_MATCH = "`ETag` of the snapshot that the client has already."
PreferredWait = Annotated[int | None, Depends(_list_in("Prefer", PREFER, preferred_wait_s))]
Versions = Annotated[frozenset[int] | None, Depends(_list_in("If-Match", IF_MATCH, versions_in))]
SeenEvents = Annotated[
    Container[int] | None, Depends(_list_in("If-None-Match", IF_NONE_MATCH, seen_events))
]
After = Annotated[int, Depends(_after)]
EventsAs = Annotated[str, Depends(event_media_type)]
Wait = Annotated[
    float,
    Query(
        ge=0,
        le=MAX_WAIT_S,
        description="Seconds to wait at most for a new event.",
    ),
]
IterationNumber = Annotated[int, Path(ge=0, le=1_000_000, description="0 is the client's draft.")]
SearchPath = Annotated[
    str,
    Query(
        max_length=500,
        description="Path of an inner search, such as `stages/outline`; empty for the outermost.",
    ),
]
StepPath = Annotated[
    str,
    Query(
        min_length=1,
        max_length=500,
        description="Key of a step, such as `iterations/2/critique`, or what several begin with,"
        " such as `iterations/2`. Default: all steps.",
    ),
]
StartPath = Annotated[
    str,
    Query(
        min_length=1,
        max_length=1_000,
        description="Path of the iteration whose draft it starts from, such as `iterations/2`."
        " Default: that of the result.",
    ),
]
AfterStep = Annotated[
    int, Query(ge=0, lt=MOST_EVENTS, description="`next_after` of the previous page.")
]
StepLimit = Annotated[int, Query(ge=1, le=100, description="Steps per page.")]


PREFIX = "metadata."
MAX_PAIRS = 16


async def only_parameters(request: Request) -> None:
    """Raise InvalidRequest for a parameter that the operation does not have.

    To ignore one lists too much, or refines another draft than the one that was meant.
    """
    if not request.scope["query_string"]:
        return
    has = request.scope["route"].dependant
    known, unknown, or_else = {*_parameters(has)}, [*request.query_params], ""
    if _takes_metadata(has):
        unknown = [name for name in unknown if not name.startswith(PREFIX)]
        or_else = f"; one for metadata is `{PREFIX}KEY`"
    if refused := {
        name[:100]: f"is not a parameter{suggested(name, known) or or_else}"
        for name in unknown
        if name not in known
    }:
        raise invalid_query(refused)


V1 = [Depends(only_parameters)]
"""What each request to these routes passes first."""


def _parameters(dependant: Dependant) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for inner in dependant.dependencies:
        yield from _parameters(inner)


def _takes_metadata(dependant: Dependant) -> bool:
    return dependant.call is _metadata or any(map(_takes_metadata, dependant.dependencies))


async def _metadata(request: Request) -> Mapping[str, str]:
    """Return the metadata filters."""
    pairs: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        key = name.removeprefix(PREFIX)
        if name.startswith(PREFIX) and pairs.setdefault(key, value) != value:
            raise invalid_query({name[:100]: "is given twice with different values"})
    if len(pairs) > MAX_PAIRS:
        raise invalid_query({PREFIX: f"may be given for at most {MAX_PAIRS} names"})
    return pairs


Metadata = Annotated[Mapping[str, str], Depends(_metadata)]


ScoreBound = Annotated[
    Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | Absent,
    Query(description="Bound of the score of the best draft so far, inclusive."),
]
CostBound = Annotated[
    Annotated[float, Field(ge=0, allow_inf_nan=False)] | Absent,
    Query(
        description="Bound of what it has cost so far, inclusive; an unknown cost is within no"
        " bounds."
    ),
]
TimeBound = Annotated[
    Instant | Absent,
    Query(
        description="Bound of the time of submission, inclusive, with an offset (RFC 3339):"
        " `created_at`, and in a batch the time of the batch."
    ),
]


async def _listed(
    status: Annotated[
        list[Status], Query(description="Only refinements in one of these statuses; repeatable.")
    ] = [],  # noqa: B006 - the framework copies it
    outcome: Annotated[
        list[RefinementOutcome],
        Query(description="Only refinements that ended with one of these outcomes; repeatable."),
    ] = [],  # noqa: B006
    strategy: Annotated[
        list[str], Query(description="Only refinements of one of these strategies; repeatable.")
    ] = [],  # noqa: B006
    min_score: ScoreBound = None,
    max_score: ScoreBound = None,
    min_cost_usd: CostBound = None,
    max_cost_usd: CostBound = None,
    submitted_from: TimeBound = None,
    submitted_to: TimeBound = None,
    parent: Annotated[
        str | Absent,
        Query(max_length=100, description="Only refinements that continue the one with this id."),
    ] = None,
) -> Selected:
    """Return what a list is to hold."""
    return Selected(
        frozenset(status),
        frozenset(outcome),
        frozenset(strategy),
        min_score,
        max_score,
        min_cost_usd,
        max_cost_usd,
        submitted_from,
        submitted_to,
        parent,
    )


Listed = Annotated[Selected, Depends(_listed)]
Sought = Annotated[
    Annotated[str, Field(max_length=200)] | Absent,
    Query(
        description="Only refinements with all these words, or parts of words, without regard to"
        " case: in id, title and metadata, and in task, draft and result unless they are archived"
        " or not stored."
    ),
]
WithResults = Annotated[
    bool,
    Query(
        alias="result",
        description="Whether snapshots have their `result`: lists of long texts are large.",
    ),
]
OfBatch = Annotated[
    str | Absent,
    Query(
        alias="batch",
        pattern=BATCH_ID,
        description="Only refinements that this batch has begun.",
    ),
]
Cursor = Annotated[
    str | Absent, Query(max_length=500, description="`next_cursor` of the previous page.")
]
Limit = Annotated[int, Query(ge=1, le=100, description="Refinements, or batches, per page.")]


def _day(text: str) -> str:
    """Return a date (RFC 3339, full-date); pydantic also reads seconds since 1970, and times."""
    if not _DAY.fullmatch(text):
        raise ValueError(A_DATE)
    return text


Day = Annotated[date, BeforeValidator(_day)]
Deltas = Annotated[
    bool,
    Query(description="Also send texts while models write them, as `step.delta` without an id."),
]
EventLimit = Annotated[int, Query(ge=1, le=100, description="Events per page of JSON.")]
EXCERPT_CHARACTERS = 1_000
Excerpts = Annotated[
    bool,
    Query(
        description="Send of every text that is longer only the first"
        f" {EXCERPT_CHARACTERS:,} characters."
    ),
]


REPORT_TYPES = {"text/markdown": "md"}
NO_PAGE = "reports are available as text/markdown (format=md); the console shows the same as a page"


async def _format(
    format_: Annotated[
        str | Absent,
        Query(
            alias="format",
            description="`md`, which is the default.",
            json_schema_extra={"enum": [*REPORT_TYPES.values()]},
        ),
    ] = None,
    accept: Annotated[list[str], Header(include_in_schema=False)] = [],  # noqa: B006
) -> str:
    if format_ == "html":
        raise NotAcceptable(NO_PAGE)
    return chosen_format(format_, accept, REPORT_TYPES, "reports are")


ReportAs = Annotated[str, Depends(_format)]
