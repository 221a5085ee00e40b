"""Dependencies of the routes: collaborators, and the parts of a request, parsed and validated."""

import re
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping
from datetime import date
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Header, Path, Query, Request
from pydantic import AwareDatetime, BeforeValidator, Field
from pydantic.json_schema import SkipJsonSchema

from app.api.bodies import RequestBody, body_as, submission_in
from app.api.problems import NotAcceptable, invalid_query
from app.contract import patterns
from app.contract.access import Rotation
from app.contract.batches import BATCH_ID
from app.contract.errors import MalformedHeader
from app.contract.invalid_values import A_DATE, A_TIME, suggested
from app.contract.limits import LimitsChange
from app.contract.overlays import PartialRequest
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

MAX_WAIT_S = 60
MAX_KEY = 255
MAX_LIST = 2_000

_NUMBER = re.compile(r"[0-9]{1,18}")
_PREFERENCE = re.compile(r"""\s*(?P<name>[^\s=;,"]+)\s*(?:=\s*(?P<value>"[^"]*"|[^\s;,"]*))?""")
_PARTS = re.compile(r"""(?:"(?:\\.|[^"\\])*"|[^,"])+""")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TAG = re.compile(r'(?:W/)?"(?P<event>[0-9]{1,18})"')
_PRINTABLE = re.compile(r"[\x20-\x7e]+")
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"')


class Anything:
    """The events that `If-None-Match: *` matches: all of them."""

    def __contains__(self, _: object) -> bool:
        return True


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
        return Anything()
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
        int, Query(ge=0, lt=10**18, description="Number of the last event received.")
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
AfterStep = Annotated[int, Query(ge=0, lt=10**18, description="`next_after` of the previous page.")]
StepLimit = Annotated[int, Query(ge=1, le=100, description="Steps per page.")]


PREFIX = "metadata."
KNOWN = {
    *("status", "outcome", "strategy", "min_score", "max_score", "min_cost_usd", "max_cost_usd"),
    *("submitted_from", "submitted_to", "parent", "batch", "q", "result", "limit", "cursor"),
}
MAX_PAIRS = 16


async def _metadata(request: Request) -> Mapping[str, str]:
    """Return the metadata filters. Reject unknown parameters: ignoring a filter lists too much."""
    pairs: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name.startswith(PREFIX) and pairs.setdefault(name.removeprefix(PREFIX), value) == value:
            continue
        if name not in KNOWN:
            raise invalid_query({name[:100]: _not_a_filter(name)})
    if len(pairs) > MAX_PAIRS:
        raise invalid_query({PREFIX: f"may be given for at most {MAX_PAIRS} names"})
    return pairs


def _not_a_filter(name: str) -> str:
    if name.startswith(PREFIX):
        return "is given twice with different values"
    close = suggested(name, KNOWN)
    return f"is not a parameter{close or f'; one for metadata is `{PREFIX}KEY`'}"


Metadata = Annotated[Mapping[str, str], Depends(_metadata)]


def _instant(text: str) -> str:
    """Return a time (RFC 3339); pydantic also reads seconds since 1970."""
    if not _DAY.match(text):
        raise ValueError(A_TIME)
    return text


Instant = Annotated[AwareDatetime, BeforeValidator(_instant)]
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
Limit = Annotated[int, Query(ge=1, le=100, description="Refinements per page.")]


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
