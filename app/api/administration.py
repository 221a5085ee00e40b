"""The routes for administrators: API keys."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request

from app.access import Keyring
from app.api import examples
from app.api.bodies import RequestBody, body_of
from app.api.dependencies import Tenant
from app.api.openapi import UNREADABLE, body, problems
from app.contract.access import ApiKey, IssuedKey, KeyList, KeyRequest, KeyRotation
from app.contract.errors import NotFound

keys = APIRouter(prefix="/v1/keys", tags=["keys"])


async def _keyring(request: Request) -> Keyring:
    keyring: Keyring = request.state.keyring
    return keyring


TheKeyring = Annotated[Keyring, Depends(_keyring)]
KeyId = Annotated[str, Path(pattern="^key_[0-9a-z]{12}$", examples=["key_3f8k2m9q7w1x"])]
KeyBody = Annotated[RequestBody[KeyRequest], Depends(body_of(KeyRequest, is_required=False))]
RotationBody = Annotated[RequestBody[KeyRotation], Depends(body_of(KeyRotation, is_required=False))]


@keys.post(
    "",
    operation_id="createKey",
    status_code=201,
    responses=problems(*UNREADABLE),
    openapi_extra=body(KeyRequest, examples.KEYS, is_required=False),
)
async def create(request: KeyBody, admin: Tenant, keyring: TheKeyring) -> IssuedKey:
    """Create an API key. The response is the only one that shows it."""
    return await keyring.create(admin, request.content)


@keys.get("", operation_id="listKeys", responses=problems())
async def list_(admin: Tenant, keyring: TheKeyring) -> KeyList:
    """List the keys of the tenant; in the tenant `default` those of all tenants.

    Keys that were revoked or have expired are listed too.
    """
    return KeyList(data=await keyring.keys(admin))


@keys.get("/{key_id}", operation_id="getKey", responses=problems(NotFound))
async def get(key_id: KeyId, admin: Tenant, keyring: TheKeyring) -> ApiKey:
    """Return a key, without its secret part."""
    return await keyring.get(admin, key_id)


@keys.post(
    "/{key_id}/rotate",
    operation_id="rotateKey",
    status_code=201,
    responses=problems(NotFound, *UNREADABLE),
    openapi_extra=body(KeyRotation, examples.ROTATIONS, is_required=False),
)
async def rotate(
    key_id: KeyId, rotation: RotationBody, admin: Tenant, keyring: TheKeyring
) -> IssuedKey:
    """Create a key with the same tenant, scopes and expiry; both work for `overlap_s` seconds."""
    return await keyring.rotate(admin, key_id, rotation.content)


@keys.delete("/{key_id}", operation_id="revokeKey", status_code=204, responses=problems(NotFound))
async def revoke(key_id: KeyId, admin: Tenant, keyring: TheKeyring) -> None:
    """Revoke a key: within a second every request with it is refused, and its streams end."""
    await keyring.revoke(admin, key_id)
