"""The routes about access: API keys, for administrators, and read tokens."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request

from app.access import Caller, Directory, Keyring
from app.api import examples
from app.api.bodies import RequestBody, body_of
from app.api.dependencies import RefinementId, Tenant, TheStore
from app.api.openapi import UNREADABLE, body, problems
from app.contract.access import (
    ApiKey,
    IssuedKey,
    IssuedToken,
    KeyList,
    KeyRequest,
    KeyRotation,
    TokenRequest,
)
from app.contract.errors import NotFound, RefinementNotFound

keys = APIRouter(prefix="/v1/keys", tags=["keys"])
tokens = APIRouter(prefix="/v1/refinements/{refinement_id}/tokens", tags=["keys"])


async def _keyring(request: Request) -> Keyring:
    keyring: Keyring = request.state.keyring
    return keyring


async def _directory(request: Request) -> Directory:
    directory: Directory = request.state.directory
    return directory


async def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


TheDirectory = Annotated[Directory, Depends(_directory)]
TheCaller = Annotated[Caller, Depends(_caller)]
TheKeyring = Annotated[Keyring, Depends(_keyring)]
KeyId = Annotated[str, Path(pattern="^key_[0-9a-z]{12}$", examples=["key_3f8k2m9q7w1x"])]
KeyBody = Annotated[RequestBody[KeyRequest], Depends(body_of(KeyRequest, is_required=False))]
TokenBody = Annotated[RequestBody[TokenRequest], Depends(body_of(TokenRequest, is_required=False))]
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


@tokens.post(
    "",
    operation_id="createToken",
    status_code=201,
    responses=problems(RefinementNotFound, *UNREADABLE),
    openapi_extra=body(TokenRequest, examples.TOKENS, is_required=False),
)
async def create_token(
    refinement_id: RefinementId,
    request: TokenBody,
    caller: TheCaller,
    store: TheStore,
    directory: TheDirectory,
) -> IssuedToken:
    """Create a token with which a browser reads this refinement for some minutes.

    It is sent as `?token=`, because an `EventSource` sends no headers. It allows every `GET` of
    this refinement and nothing else, and works for as long as the key that it was made with. An
    event stream ends with it.
    """
    await store.last_event(caller.tenant, refinement_id)
    expires_in_s = request.content.expires_in_s
    token, expires_at = directory.read_token(caller, refinement_id, expires_in_s)
    return IssuedToken(token=token, refinement_id=refinement_id, expires_at=expires_at)
