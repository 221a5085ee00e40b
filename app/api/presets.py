"""The routes of presets."""

from typing import Annotated

from fastapi import APIRouter, Path, Response

from app.api import examples
from app.api.dependencies import V1, PartialBody, Tenant, TheStore
from app.api.openapi import UNREADABLE, body, problems
from app.contract import patterns
from app.contract.errors import Conflict, NotFound
from app.contract.overlays import OF_ONE_REQUEST, PartialRequest, Preset, PresetList

presets = APIRouter(prefix="/v1/presets", tags=["presets"], dependencies=V1)

PresetPath = Annotated[
    str, Path(pattern=patterns.PRESET_NAME.regex, examples=[examples.PRESET_NAME])
]


@presets.put(
    "/{preset_id}",
    operation_id="putPreset",
    response_model=Preset,
    responses=problems(*UNREADABLE, Conflict)
    | {201: {"model": Preset, "description": "There was none with this name."}},
    openapi_extra=body(PartialRequest, examples.PRESETS),
)
async def put(
    preset_id: PresetPath, given: PartialBody, tenant: Tenant, store: TheStore, response: Response
) -> Preset:
    """Store named defaults for the fields of requests, in place of what had this name.

    A preset has any fields of a request but `draft`, `feedback`, `spans`, `locked`, `start_after`,
    `deadline` and `preset`. A request names it with `"preset": "support-mail"` and lies over it: a
    field of the request replaces that of the preset as a whole, and `null` takes it away. Requests
    that named it before stay as they are.
    """
    given.content.require_without(OF_ONE_REQUEST, "a preset cannot have this field")
    stored, is_new = await store.presets.put(tenant, preset_id, given.content)
    response.status_code = 201 if is_new else 200
    return stored


@presets.get("", operation_id="listPresets", responses=problems())
async def list_(tenant: Tenant, store: TheStore) -> PresetList:
    """Return the presets of the tenant, by name."""
    return PresetList(data=await store.presets.all(tenant))


@presets.get("/{preset_id}", operation_id="getPreset", responses=problems(NotFound))
async def get(preset_id: PresetPath, tenant: Tenant, store: TheStore) -> Preset:
    """Return a preset; secrets are masked."""
    return await store.presets.get(tenant, preset_id)


@presets.delete(
    "/{preset_id}", operation_id="removePreset", status_code=204, responses=problems(NotFound)
)
async def remove(preset_id: PresetPath, tenant: Tenant, store: TheStore) -> None:
    """Remove a preset. Refinements that were made with it stay as they are."""
    await store.presets.remove(tenant, preset_id)
