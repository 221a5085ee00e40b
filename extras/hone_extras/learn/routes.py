"""The routes of proposals."""

from functools import cache
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Response

from app.api.batches import TheBatches
from app.api.dependencies import V1, ApiKeyId, RequestBody, Tenant, TheService, TheStore, body_as
from app.api.openapi import OF_SUBMISSION, UNREADABLE, body, problems
from app.api.presets import PresetPath
from app.contract import patterns
from app.contract.errors import Conflict, NotFound, PreconditionFailed
from app.contract.plugins import installed, missing_requirements
from hone_extras.learn.learning import Learning
from hone_extras.learn.proposal import Acceptance, Proposal, ProposalList, ProposalRequest

EXTRA = "learn"


class ExtraMissing(NotFound):
    """The extra that answers this operation is not installed where the API runs."""


@cache
def _missing() -> tuple[str, ...]:
    (entry,) = installed("hone.routes").select(name=EXTRA)
    return tuple(missing_requirements(entry))


async def _require_extra() -> None:
    if missing := _missing():
        needed = " ".join(f"'{each}'" for each in missing)
        detail = f"proposals are the extra `{EXTRA}` (hone[{EXTRA}]), which is not installed"
        raise ExtraMissing(f"{detail} where the API runs: pip install {needed}")


router = APIRouter(
    prefix="/v1/presets/{preset_id}/proposals",
    tags=["presets"],
    dependencies=[Depends(_require_extra), *V1],
)


def _learning(store: TheStore, service: TheService, batches: TheBatches) -> Learning:
    return Learning(store, service, batches)


TheLearning = Annotated[Learning, Depends(_learning)]
ProposalId = Annotated[
    str,
    Path(
        description="`id` in the response of `POST .../proposals`.",
        pattern=patterns.PROPOSAL_ID.regex,
        examples=["prop_01JD3Y3V3G5ZC1Q6E0M8W2R9TB"],
    ),
]
RequestOf = Annotated[
    RequestBody[ProposalRequest], Depends(body_as(ProposalRequest, is_required=False))
]
AcceptanceOf = Annotated[RequestBody[Acceptance], Depends(body_as(Acceptance, is_required=False))]


@router.post(
    "",
    operation_id="createProposal",
    status_code=202,
    responses=problems(NotFound, Conflict, *OF_SUBMISSION),
    openapi_extra=body(ProposalRequest, {"small": {"texts": 12}}, is_required=False),
)
async def begin_proposal(
    preset_id: PresetPath,
    asked: RequestOf,
    tenant: Tenant,
    api_key: ApiKeyId,
    learning: TheLearning,
    response: Response,
) -> Proposal:
    """Propose a change of a preset by what people said of its refinements, and prove it.

    A model writes the change from reviewers' edits and words, ratings and findings that came back.
    Present and proposed setting are then played on texts that the writer has not seen, and a judge
    that does not know which is which scores the drafts. The preset stays as it is until the
    proposal is accepted. Needs the extra `learn`.
    """
    proposal = await learning.begin(tenant, preset_id, asked.content, api_key)
    response.headers["Location"] = f"/v1/presets/{preset_id}/proposals/{proposal.id}"
    return proposal


@router.get("", operation_id="listProposals", responses=problems(NotFound))
async def list_proposals(
    preset_id: PresetPath, tenant: Tenant, learning: TheLearning
) -> ProposalList:
    """Return the proposals for a preset, newest first."""
    return ProposalList(data=tuple(await learning.all(tenant, preset_id)))


@router.get("/{proposal_id}", operation_id="getProposal", responses=problems(NotFound))
async def get_proposal(
    preset_id: PresetPath, proposal_id: ProposalId, tenant: Tenant, learning: TheLearning
) -> Proposal:
    """Return a proposal with what is known of it by now."""
    return await learning.look(tenant, preset_id, proposal_id)


@router.post(
    "/{proposal_id}/accept",
    operation_id="acceptProposal",
    responses=problems(NotFound, Conflict, PreconditionFailed, *UNREADABLE),
    openapi_extra=body(Acceptance, {"as proved": {}}, is_required=False),
)
async def accept_proposal(
    preset_id: PresetPath,
    proposal_id: ProposalId,
    given: AcceptanceOf,
    tenant: Tenant,
    learning: TheLearning,
) -> Proposal:
    """Change the preset as proposed, if it has not changed since the proposal began.

    A proposal without a significant gain is accepted with `anyway` only.
    """
    return await learning.accept(tenant, preset_id, proposal_id, anyway=given.content.anyway)


@router.delete(
    "/{proposal_id}",
    operation_id="removeProposal",
    status_code=204,
    responses=problems(NotFound),
)
async def remove_proposal(
    preset_id: PresetPath, proposal_id: ProposalId, tenant: Tenant, learning: TheLearning
) -> None:
    """Delete a proposal with all that was made for it, in any status. It still counts as a try."""
    await learning.remove(tenant, preset_id, proposal_id)
