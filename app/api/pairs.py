"""The route of preference pairs."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse

from app.api import examples
from app.api.batches import MEDIA_TYPE
from app.api.dependencies import Absent, Tenant, TheService, TimeBound
from app.api.openapi import PAIRS, problems
from app.api.problems import invalid_query
from app.api.routes import TheReceiver
from app.contract import patterns
from app.contract.errors import InvalidRequest, NotFound
from app.contract.invalid_values import suggested
from app.contract.pairs import SOURCES, PairForm, PairSource, WantedPairs
from app.contract.snapshot import Selected

pairs = APIRouter(prefix="/v1/pairs", tags=["statistics"])

PARAMETERS = frozenset(("preset", "form", "source", "submitted_from", "submitted_to"))


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
    """Return which pairs are wanted. An unknown parameter is an error: it would export too much."""
    if unknown := request.query_params.keys() - PARAMETERS:
        raise invalid_query(
            {
                name[:100]: f"is not a parameter{suggested(name, PARAMETERS)}"
                for name in sorted(unknown)
            }
        )
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
