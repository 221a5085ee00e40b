"""The whole story of one refinement, for a person."""

from typing import Annotated, get_args

from fastapi import APIRouter, Depends, Header, Query, Response

from app.api.dependencies import Absent, RefinementId, Tenant, TheService
from app.api.documentation import REPORTED, problems
from app.api.headers import accepted
from app.api.refusals import NotAcceptable
from app.contract.errors import InvalidRequest, MalformedHeader, RefinementNotFound
from app.service.report import ReportFormat

router = APIRouter(prefix="/v1/refinements/{refinement_id}/report", tags=["journal"])

FORMATS: tuple[ReportFormat, ...] = get_args(ReportFormat)
MEDIA_TYPES: dict[str, ReportFormat] = {"text/markdown": "md", "text/html": "html"}
TYPE_OF = {format_: media_type for media_type, format_ in MEDIA_TYPES.items()}

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Vary": "Accept",
}


async def _format(
    format_: Annotated[
        str | Absent,
        Query(
            alias="format",
            description="`md` or `html`; without one as `Accept` has it, `md` among equals.",
            json_schema_extra={"enum": [*FORMATS]},
        ),
    ] = None,
    accept: Annotated[list[str], Header(include_in_schema=False)] = [],  # noqa: B006
) -> ReportFormat:
    if format_ is None:
        media_type = accepted(accept, tuple(MEDIA_TYPES))
        if media_type is None:
            raise NotAcceptable(f"a report comes as {' or as '.join(MEDIA_TYPES)}")
        return MEDIA_TYPES[media_type]
    if format_ not in FORMATS:
        raise InvalidRequest(f"there is no such format of a report: it is {' or '.join(FORMATS)}")
    return format_


@router.get(
    "",
    operation_id="reportRefinement",
    response_class=Response,
    responses=REPORTED
    | problems(MalformedHeader, RefinementNotFound, NotAcceptable, InvalidRequest),
)
async def report(
    refinement_id: RefinementId,
    tenant: Tenant,
    service: TheService,
    format_: Annotated[ReportFormat, Depends(_format)],
) -> Response:
    """Read the whole story of a refinement: what was asked, what happened, what came of it and why.

    In any status; it tells what has happened so far. As Markdown (CommonMark with tables) or as a
    page that stands alone: no script, no link, nothing from elsewhere, for screens and paper.
    """
    text = await service.report(tenant, refinement_id, format_)
    media_type = f"{TYPE_OF[format_]}; charset=utf-8"
    return Response(text.encode(), headers=HEADERS, media_type=media_type)
