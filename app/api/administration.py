"""The routes about access: API keys and tenants, for administrators, and read tokens."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import PlainTextResponse, StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from app.access.callers import Caller, Directory
from app.access.keyring import Keyring
from app.access.tenants import Tenants
from app.api import examples
from app.api.dependencies import (
    JSON,
    V1,
    Absent,
    RefinementId,
    RequestBody,
    RotationBody,
    Tenant,
    TheModelRoles,
    TheStore,
    body_as,
    chosen_format,
    shared,
)
from app.api.middleware import MANAGED
from app.api.openapi import ACTIONS, LISTED, UNREADABLE, body, problems
from app.api.problems import NotAcceptable
from app.api.responses import NEGOTIATED, page_response
from app.contract import patterns
from app.contract.access import (
    TENANT_NAME,
    ApiKey,
    AuditPage,
    IssuedKey,
    IssuedToken,
    KeyList,
    KeyRequest,
    ProviderKey,
    ProviderKeyList,
    ProviderKeyRequest,
    Quotas,
    Rotation,
    TenantList,
    TenantOverview,
    TokenRequest,
)
from app.contract.errors import (
    Conflict,
    InvalidRequest,
    MalformedHeader,
    NotFound,
    RefinementNotFound,
)

keys = APIRouter(prefix="/v1/keys", tags=["keys"], dependencies=V1)
tenants = APIRouter(prefix="/v1/tenants", tags=["tenants"], dependencies=V1)
audit = APIRouter(prefix="/v1/audit", tags=["audit"], dependencies=V1)
monitoring = APIRouter(tags=["health"])
tokens = APIRouter(prefix="/v1/refinements/{refinement_id}/tokens", tags=["keys"], dependencies=V1)


async def _managing(request: Request) -> Callable[[str], None]:
    return partial(setattr, request.state, MANAGED)


Managing = Annotated[Callable[[str], None], Depends(_managing)]
"""Says for the audit log which tenant an operation is about."""

TheTenants = Annotated[Tenants, Depends(shared("tenants"))]
TenantPath = Annotated[str, Path(pattern=TENANT_NAME, examples=["acme"])]
ProviderPath = Annotated[str, Path(pattern=patterns.PROVIDER_IN_PATH.regex, examples=["openai"])]
ProviderKeyBody = Annotated[RequestBody[ProviderKeyRequest], Depends(body_as(ProviderKeyRequest))]
QuotasBody = Annotated[RequestBody[Quotas], Depends(body_as(Quotas))]
OfTenant = Annotated[
    str | Absent,
    Query(
        pattern=TENANT_NAME,
        description="Tenant, for administrators of `default`; default: the caller's.",
    ),
]
AuditCursor = Annotated[
    str | Absent,
    Query(pattern=patterns.AUDIT_CURSOR.regex, description="`next_cursor` of the previous page."),
]
KeyCursor = Annotated[
    str | Absent,
    Query(pattern=patterns.KEY_CURSOR.regex, description="`next_cursor` of the previous page."),
]
TenantCursor = Annotated[
    str | Absent, Query(pattern=TENANT_NAME, description="`next_cursor` of the previous page.")
]
PageLimit = Annotated[int, Query(ge=1, le=1_000, description="Entries per page.")]
JSON_LINES = "application/jsonl"
AUDIT_TYPES: dict[str, Literal["json", "jsonl"]] = {JSON: "json", JSON_LINES: "jsonl"}
TheDirectory = Annotated[Directory, Depends(shared("directory"))]
TheCaller = Annotated[Caller, Depends(shared("caller"))]
TheKeyring = Annotated[Keyring, Depends(shared("keyring"))]
KeyId = Annotated[str, Path(pattern=patterns.KEY_ID.regex, examples=["key_3f8k2m9q7w1x"])]
KeyBody = Annotated[RequestBody[KeyRequest], Depends(body_as(KeyRequest, is_required=False))]
TokenBody = Annotated[RequestBody[TokenRequest], Depends(body_as(TokenRequest, is_required=False))]


@keys.post(
    "",
    operation_id="createKey",
    status_code=201,
    responses=problems(Conflict, *UNREADABLE),
    openapi_extra=body(KeyRequest, examples.KEYS, is_required=False),
)
async def create(
    request: KeyBody, admin: Tenant, keyring: TheKeyring, response: Response, managing: Managing
) -> IssuedKey:
    """Create an API key. The response is the only one that shows it.

    A tenant has at most 1,000 keys. One more takes the place of a key that no longer works, and is
    refused if there is none.
    """
    issued = await keyring.create(admin, request.content)
    managing(issued.tenant)
    response.headers["Location"] = f"/v1/keys/{issued.id}"
    return issued


@keys.get("", operation_id="listKeys", responses=LISTED | problems(MalformedHeader, InvalidRequest))
async def list_(
    admin: Tenant,
    keyring: TheKeyring,
    request: Request,
    response: Response,
    cursor: KeyCursor = None,
    limit: PageLimit = 100,
) -> KeyList:
    """List the keys of the tenant, the newest first; in the tenant `default` those of all tenants.

    Keys that were revoked or have expired are listed too.
    """
    return page_response(request, response, await keyring.page(admin, limit, cursor))


@keys.get("/{key_id}", operation_id="getKey", responses=problems(NotFound))
async def get(key_id: KeyId, admin: Tenant, keyring: TheKeyring, managing: Managing) -> ApiKey:
    """Return a key, without its secret part."""
    found = await keyring.get(admin, key_id)
    managing(found.tenant)
    return found


@keys.post(
    "/{key_id}/rotate",
    operation_id="rotateKey",
    status_code=201,
    responses=problems(NotFound, Conflict, *UNREADABLE),
    openapi_extra=body(Rotation, examples.ROTATIONS, is_required=False),
)
async def rotate(
    key_id: KeyId, rotation: RotationBody, admin: Tenant, keyring: TheKeyring, managing: Managing
) -> IssuedKey:
    """Create a key with the same tenant, scopes and expiry; both work for `overlap_s` seconds."""
    issued = await keyring.rotate(admin, key_id, rotation.content)
    managing(issued.tenant)
    return issued


@keys.delete("/{key_id}", operation_id="revokeKey", status_code=204, responses=problems(NotFound))
async def revoke(key_id: KeyId, admin: Tenant, keyring: TheKeyring, managing: Managing) -> None:
    """Revoke a key: within a second every request with it is refused, and its streams end."""
    managing((await keyring.revoke(admin, key_id)).tenant)


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
    this refinement but those of its request and its webhooks, and nothing else. It works for as
    long as the key that it was made with. An event stream ends with it.
    """
    await store.last_event(caller.tenant, refinement_id)
    expires_in_s = request.content.expires_in_s
    token, expires_at = directory.read_token(caller, refinement_id, expires_in_s)
    return IssuedToken(token=token, refinement_id=refinement_id, expires_at=expires_at)


@tenants.get(
    "", operation_id="listTenants", responses=LISTED | problems(MalformedHeader, InvalidRequest)
)
async def list_tenants(
    admin: Tenant,
    known: TheTenants,
    request: Request,
    response: Response,
    cursor: TenantCursor = None,
    limit: PageLimit = 100,
) -> TenantList:
    """List the tenants with their quotas and what they use; outside `default` only the own one."""
    return page_response(request, response, await known.page(admin, limit, cursor))


@tenants.get("/{tenant_id}", operation_id="getTenant", responses=problems(NotFound))
async def get_tenant(
    tenant_id: TenantPath, admin: Tenant, known: TheTenants, managing: Managing
) -> TenantOverview:
    """Return the quotas of a tenant, and what it uses."""
    managing(tenant_id)
    return await known.get(admin, tenant_id)


@tenants.put(
    "/{tenant_id}/quotas",
    operation_id="setQuotas",
    responses=problems(NotFound, *UNREADABLE),
    openapi_extra=body(Quotas, examples.QUOTAS),
)
async def set_quotas(
    tenant_id: TenantPath, quotas: QuotasBody, admin: Tenant, known: TheTenants, managing: Managing
) -> TenantOverview:
    """Replace the quotas of a tenant; only an administrator of `default` may.

    They count within a second. A quota that is omitted is none.
    """
    managing(tenant_id)
    return await known.set_quotas(admin, tenant_id, quotas.content)


@tenants.get(
    "/{tenant_id}/provider-keys",
    operation_id="listProviderKeys",
    responses=problems(NotFound),
)
async def list_provider_keys(
    tenant_id: TenantPath, admin: Tenant, known: TheTenants, store: TheStore, managing: Managing
) -> ProviderKeyList:
    """Return for which providers of models a tenant has a key of its own."""
    known.require_own(admin, tenant_id)
    managing(tenant_id)
    found = await store.provider_keys.all(tenant_id)
    listed = (ProviderKey(provider=provider, set_at=set_at) for provider, set_at in found.items())
    return ProviderKeyList(data=tuple(listed))


@tenants.put(
    "/{tenant_id}/provider-keys/{provider}",
    operation_id="setProviderKey",
    responses=problems(NotFound, *UNREADABLE),
    openapi_extra=body(ProviderKeyRequest, examples.PROVIDER_KEYS),
)
async def set_provider_key(
    tenant_id: TenantPath,
    provider: ProviderPath,
    given: ProviderKeyBody,
    admin: Tenant,
    known: TheTenants,
    model_roles: TheModelRoles,
    store: TheStore,
    managing: Managing,
) -> ProviderKey:
    """Give a tenant a key of its own for a provider of models, in place of an earlier one.

    Only refinements of the tenant are called with it, and with it alone: within two seconds, those
    under way included. It has limits and a breaker of its own. Administrators of the tenant and of
    `default` may.
    """
    known.require_own(admin, tenant_id)
    managing(tenant_id)
    if provider not in {known.name for known in model_roles.providers() if known.wire is not None}:
        raise NotFound(f"there is no provider {provider} that is called with a key")
    key = given.content.api_key.get_secret_value()
    set_at = await store.provider_keys.put(tenant_id, provider, key)
    return ProviderKey(provider=provider, set_at=set_at)


@tenants.delete(
    "/{tenant_id}/provider-keys/{provider}",
    operation_id="removeProviderKey",
    status_code=204,
    responses=problems(NotFound),
)
async def remove_provider_key(
    tenant_id: TenantPath,
    provider: ProviderPath,
    admin: Tenant,
    known: TheTenants,
    store: TheStore,
    managing: Managing,
) -> None:
    """Remove the key that a tenant has of its own for a provider: the server's is used again."""
    known.require_own(admin, tenant_id)
    managing(tenant_id)
    await store.provider_keys.remove(tenant_id, provider)


@audit.get(
    "",
    operation_id="listActions",
    response_model=AuditPage,
    responses=ACTIONS | problems(MalformedHeader, NotFound, NotAcceptable, InvalidRequest),
)
async def list_actions(
    admin: Tenant,
    known: TheTenants,
    response: Response,
    managing: Managing,
    tenant: OfTenant = None,
    cursor: AuditCursor = None,
    limit: PageLimit = 100,
    accept: Annotated[list[str], Header(include_in_schema=False)] = [],  # noqa: B006
) -> AuditPage | Response:
    """Return who did what with a key, or by the operator's commands; the newest first.

    That are all operations that change something and succeeded, and what an operator does with
    another tenant, such as reading this log or its usage; lists over all tenants are not
    recorded. The last 10,000 of each tenant are kept, also when what they are about was erased.
    They hold ids and times, and no text. Refused requests are counted, an entry per key and
    minute. As `application/jsonl` the response has an `AuditEntry` per line, without a `limit`.
    """
    managing(tenant or admin)
    if chosen_format(None, accept, AUDIT_TYPES, "the audit log is") == "jsonl":
        known.require_own(admin, tenant or admin)
        lines = known.all_audited(admin, tenant, cursor)
        return StreamingResponse(lines, headers=NEGOTIATED, media_type=JSON_LINES)
    response.headers.update(NEGOTIATED)
    return await known.audited(admin, tenant, cursor, limit)


@monitoring.get(
    "/metrics", operation_id="getMetrics", response_class=PlainTextResponse, responses=problems()
)
async def measured() -> Response:
    """Return the metrics of this API process in the text format of Prometheus.

    Workers and what sends webhooks serve theirs on `HONE_METRICS_ADDRESS`.
    """
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)
