"""The route of usage: what refinements have consumed, as JSON or CSV."""

import csv
import io
from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Header, Query, Response
from pydantic import BeforeValidator

from app.access import Caller, TenantNotFound
from app.api.administration import Managing, TheCaller
from app.api.dependencies import JSON, Absent, Day, TheService, chosen_format
from app.api.openapi import USAGE, problems
from app.api.problems import NotAcceptable
from app.api.responses import NEGOTIATED
from app.contract.access import OPERATOR, TENANT_NAME, Scope
from app.contract.errors import InvalidRequest, NotFound
from app.contract.usage import UsageGrouping, UsageReport, UsageSums

usages = APIRouter(tags=["usage"])

CSV = "text/csv"
UsageFormat = Literal["json", "csv"]
USAGE_TYPES: dict[str, UsageFormat] = {JSON: "json", CSV: "csv"}

UsageFrom = Annotated[
    Day | Absent,
    Query(alias="from", description="First day, in UTC. Default: 29 days before the last one."),
]
UsageTo = Annotated[Day | Absent, Query(description="Last day, in UTC. Default: today.")]
UsageOf = Annotated[
    str | Absent,
    Query(
        pattern=TENANT_NAME,
        description="Tenant; default: the caller's, and for administrators of `default` all.",
    ),
]


def _grouping(text: object) -> object:
    known = ", ".join(UsageGrouping)
    if text not in {*UsageGrouping}:
        raise ValueError(f"must be one of {known}; repeat the parameter for several")
    return text


GroupBy = Annotated[
    list[Annotated[UsageGrouping, BeforeValidator(_grouping)]],
    Query(description="What to add up by; repeat it for several, the first sorts first."),
]


async def _format(
    format_: Annotated[
        str | Absent,
        Query(
            alias="format",
            description="`json` or `csv`. Default: by `Accept`, and `json` if both are equal.",
            json_schema_extra={"enum": [*USAGE_TYPES.values()]},
        ),
    ] = None,
    accept: Annotated[list[str], Header(include_in_schema=False)] = [],  # noqa: B006
) -> UsageFormat:
    return chosen_format(format_, accept, USAGE_TYPES, "usage is")


UsageAs = Annotated[UsageFormat, Depends(_format)]


def _tenant_of(caller: Caller, wanted: str | None) -> str | None:
    """Return whose usage a caller sees: None is that of all tenants. Raises TenantNotFound."""
    is_operator = caller.tenant == OPERATOR and Scope.ADMIN in caller.scopes
    if not is_operator and wanted not in (None, caller.tenant):
        raise TenantNotFound(wanted)
    return wanted if is_operator else caller.tenant


NUMBERS = tuple(UsageSums.model_fields)


def usage_csv(report: UsageReport, by: Sequence[UsageGrouping]) -> str:
    """Return the groups as CSV (RFC 4180), with a line of names; what is null is empty."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([*by, *NUMBERS, *(f"not_passed_{it}" for it in NUMBERS)])
    for row in report.data:
        numbers = _numbers(row) + _numbers(row.not_passed)
        writer.writerow([*(row.group[it] for it in by), *numbers])
    return text.getvalue()


def _numbers(sums: UsageSums) -> list[object]:
    values = (getattr(sums, it) for it in NUMBERS)
    return [f"{it:.9f}" if isinstance(it, float) else it for it in values]


@usages.get(
    "/v1/usage",
    operation_id="getUsage",
    response_model=UsageReport,
    responses=USAGE | problems(NotFound, NotAcceptable, InvalidRequest),
)
async def get(
    caller: TheCaller,
    service: TheService,
    format_: UsageAs,
    response: Response,
    managing: Managing,
    first: UsageFrom = None,
    to: UsageTo = None,
    group_by: GroupBy = [UsageGrouping.DAY],  # noqa: B006
    tenant: UsageOf = None,
) -> UsageReport | Response:
    """Return what refinements have consumed, and what of it those that did not pass.

    A refinement counts on the day of UTC on which it ended, and stays counted after it was erased.
    Calls and tokens are those of its journal.
    """
    by = tuple(dict.fromkeys(group_by))
    whose = _tenant_of(caller, tenant)
    managing(whose or caller.tenant)
    report = await service.usage(whose, first, to, by)
    if format_ == "json":
        response.headers.update(NEGOTIATED)
        return report
    headers = NEGOTIATED | {"Content-Disposition": f'attachment; filename="usage-{report.to}.csv"'}
    return Response(usage_csv(report, by), headers=headers, media_type=f"{CSV}; charset=utf-8")
