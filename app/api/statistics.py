"""The routes of statistics: sums over ended refinements as JSON, usage also as CSV, and pairs."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BeforeValidator

from app.access.callers import Caller
from app.access.tenants import TenantNotFound
from app.api import examples
from app.api.administration import Managing, TheCaller
from app.api.batches import MEDIA_TYPE
from app.api.dependencies import (
    JSON,
    V1,
    Absent,
    Day,
    Tenant,
    TheCells,
    TheService,
    TimeBound,
    chosen_format,
)
from app.api.openapi import PAIRS, STATISTICS, problems
from app.api.problems import NotAcceptable, invalid_query
from app.api.responses import NEGOTIATED
from app.api.routes import TheReceiver
from app.contract import patterns
from app.contract.access import OPERATOR, TENANT_NAME, Scope
from app.contract.errors import InvalidRequest, MalformedHeader, NotFound, Overloaded
from app.contract.pairs import SOURCES, PairForm, PairSource, WantedPairs
from app.contract.snapshot import Selected
from app.contract.statistics import (
    KEPT_DAYS,
    CalibrationList,
    Dimension,
    InsightList,
    ModelAchievementList,
    UsageGrouping,
    UsageReport,
    UsageSums,
    ranked,
)

statistics = APIRouter(tags=["statistics"], dependencies=V1)

CSV = "text/csv"
UsageFormat = Literal["json", "csv"]
USAGE_TYPES: dict[str, UsageFormat] = {JSON: "json", CSV: "csv"}

PARAMETERS: dict[str, frozenset[str]] = {
    "usage": frozenset(("from", "to", "group_by", "tenant", "format")),
    "insights": frozenset(("since", "by", "limit")),
    "calibration": frozenset(("limit",)),
    "models": frozenset(("limit",)),
}
"""What may be asked for, and by which parameters."""

Subject = Annotated[
    Literal["usage", "insights", "calibration", "models"],
    Query(
        description="`usage`: what was consumed. `insights`: what raised the score. `calibration`:"
        " what is known about scores. `models`: what drawn models have achieved."
    ),
]
UsageFrom = Annotated[
    Day | Absent,
    Query(
        alias="from",
        description="Of usage: first day, in UTC. Default: 29 days before the last one.",
    ),
]
UsageTo = Annotated[Day | Absent, Query(description="Of usage: last day, in UTC. Default: today.")]
GroupedBy = Annotated[
    Dimension | Absent, Query(description="Only insights by this. Default: all groupings.")
]
Since = Annotated[
    Day | Absent,
    Query(
        description="Of insights: first day that counts, in UTC, such as 2026-01-31. Default, and"
        f" the earliest: {KEPT_DAYS - 1} days ago."
    ),
]
StatisticsLimit = Annotated[
    int | Absent,
    Query(
        ge=1,
        le=1_000,
        description="Of insights: values per grouping, those with the highest gain first; default"
        " 20. Of calibration and models: rows; default 100.",
    ),
]
UsageOf = Annotated[
    str | Absent,
    Query(
        pattern=TENANT_NAME,
        description="Of usage: tenant; default: the caller's, and for administrators of `default`"
        " all.",
    ),
]


def _grouping(text: object) -> object:
    known = ", ".join(UsageGrouping)
    if text not in {*UsageGrouping}:
        raise ValueError(f"must be one of {known}; repeat the parameter for several")
    return text


GroupBy = Annotated[
    list[Annotated[UsageGrouping, BeforeValidator(_grouping)]],
    Query(description="What to add usage up by; repeat it for several, the first sorts first."),
]


async def _format(
    format_: Annotated[
        str | Absent,
        Query(
            alias="format",
            description="Of usage: `json` or `csv`. Default: by `Accept`, else `json`.",
            json_schema_extra={"enum": [*USAGE_TYPES.values()]},
        ),
    ] = None,
    accept: Annotated[list[str], Header(include_in_schema=False)] = [],  # noqa: B006
) -> UsageFormat:
    return chosen_format(format_, accept, USAGE_TYPES, "statistics are")


UsageAs = Annotated[UsageFormat, Depends(_format)]


def _tenant_of(caller: Caller, wanted: str | None) -> str | None:
    """Return the tenant whose usage a caller sees, None for all. Raises TenantNotFound."""
    is_operator = caller.tenant == OPERATOR and Scope.ADMIN in caller.scopes
    if not is_operator and wanted not in (None, caller.tenant):
        raise TenantNotFound(wanted)
    return wanted if is_operator else caller.tenant


NUMBERS = tuple(UsageSums.model_fields)


def usage_csv(report: UsageReport, by: Sequence[UsageGrouping]) -> str:
    """Return the groups as CSV (RFC 4180), with a line of names; what is null is empty."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([*by, *NUMBERS, *(f"not_passed_{name}" for name in NUMBERS)])
    for row in report.data:
        numbers = _numbers(row) + _numbers(row.not_passed)
        writer.writerow([*(row.group[grouping] for grouping in by), *numbers])
    return text.getvalue()


def _numbers(sums: UsageSums) -> list[object]:
    values = (getattr(sums, name) for name in NUMBERS)
    return [f"{number:.9f}" if isinstance(number, float) else number for number in values]


def _require_fitting(of: str, query: Mapping[str, str]) -> None:
    """Raise InvalidRequest for a parameter of other statistics: it would have no effect."""
    known = frozenset[str]().union(*PARAMETERS.values())
    if foreign := sorted(query.keys() & known - PARAMETERS[of]):
        raise invalid_query(dict.fromkeys(foreign, f"is no parameter of {of}"))


@statistics.get(
    "/v1/statistics",
    operation_id="getStatistics",
    response_model=UsageReport | InsightList | CalibrationList | ModelAchievementList,
    responses=STATISTICS
    | problems(MalformedHeader, NotFound, NotAcceptable, InvalidRequest, Overloaded),
)
async def get(
    request: Request,
    caller: TheCaller,
    cells: TheCells,
    format_: UsageAs,
    response: Response,
    managing: Managing,
    of: Subject,
    first: UsageFrom = None,
    to: UsageTo = None,
    group_by: GroupBy = [UsageGrouping.DAY],  # noqa: B006
    tenant: UsageOf = None,
    by: GroupedBy = None,
    since: Since = None,
    limit: StatisticsLimit = None,
) -> UsageReport | InsightList | CalibrationList | ModelAchievementList | Response:
    """Return sums over ended refinements; they stay when the refinements are erased.

    - `usage`: what they have consumed, and what of it those that did not pass. A refinement counts
      on the day of UTC on which it ended, whatever its outcome. Calls and tokens are those of its
      journal.
    - `insights`: by how much strategies, models and steps raised the score. By `step`, `model`,
      `critic` and `criterion` a case is a draft, compared with the one that it came of; by
      `strategy` it is a refinement, its result compared with its first draft. Every refinement that
      succeeded counts once. Scores compare only within one rubric and one critic: read intervals
      that overlap as no difference.
    - `calibration`: what scores have taught, by kind: the same generator, critics, criteria and
      strategy. A row without strategy and criteria is about all kinds with its models; one without
      a generator about a critic of whom only ratings are known.
    - `models`: how models ended that were drawn from several candidates, in the last 30 days.
    """
    _require_fitting(of, request.query_params)
    response.headers.update(NEGOTIATED)
    if of != "usage" and format_ != "json":
        raise NotAcceptable(f"{of} are available as {JSON}")
    if of == "insights":
        day, sums = await cells.statistics.insights(
            caller.tenant, since, [by] if by else [*Dimension]
        )
        return InsightList(since=day, data=ranked(sums, limit or 20))
    if of == "calibration":
        kinds = await cells.statistics.calibrations(caller.tenant, limit or 100)
        return CalibrationList(data=kinds)
    if of == "models":
        return ModelAchievementList(data=await cells.statistics.models(caller.tenant, limit or 100))
    groups = tuple(dict.fromkeys(group_by))
    whose = _tenant_of(caller, tenant)
    managing(whose or caller.tenant)
    report = await cells.statistics.usage(whose, first, to, groups)
    if format_ == "json":
        return report
    headers = NEGOTIATED | {"Content-Disposition": f'attachment; filename="usage-{report.to}.csv"'}
    return Response(usage_csv(report, groups), headers=headers, media_type=f"{CSV}; charset=utf-8")


pairs = APIRouter(prefix="/v1/pairs", tags=["statistics"], dependencies=V1)


async def _wanted(
    request: Request,
    preset: Annotated[
        str | Absent,
        Query(
            pattern=patterns.PRESET_NAME.regex,
            description="Only refinements that were made with this preset.",
            examples=[examples.PRESET_NAME],
        ),
    ] = None,
    form: Annotated[
        PairForm,
        Query(
            description="`plain`: `prompt`, `chosen` and `rejected` are texts; `conversational`:"
            " lists of messages with `role` and `content`."
        ),
    ] = "plain",
    source: Annotated[
        list[PairSource], Query(description="Only pairs from this source; repeatable.")
    ] = [],  # noqa: B006 - the framework copies it
    submitted_from: TimeBound = None,
    submitted_to: TimeBound = None,
) -> WantedPairs:
    """Return which pairs are wanted."""
    selected = Selected(submitted_from=submitted_from, submitted_to=submitted_to)
    return WantedPairs(preset, form, frozenset(source or SOURCES), selected)


@pairs.get(
    "",
    operation_id="listPairs",
    response_class=Response,
    responses=PAIRS | problems(InvalidRequest, NotFound),
)
async def list_pairs(
    wanted: Annotated[WantedPairs, Depends(_wanted)],
    tenant: Tenant,
    service: TheService,
    receiver: TheReceiver,
) -> Response:
    """Return which of two drafts people, or the blind comparison, preferred, as JSON Lines.

    A line is what TRL's DPO trainer reads: `prompt`, `chosen` and `rejected`, and beside them who
    said so. Pairs of the newest refinements come first, and the response is a stream of all of
    them. Left out are refinements with `learn: false` or `store: false`, and drafts of stages,
    passes and parts.
    """
    if receiver.is_head:
        return Response(media_type=MEDIA_TYPE)
    return StreamingResponse(await service.pairs(tenant, wanted), media_type=MEDIA_TYPE)
