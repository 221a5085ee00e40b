"""The routes of webhooks: deliveries of a refinement, and the endpoints of a tenant."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Response

from app.api import examples
from app.api.dependencies import (
    V1,
    IdempotencyKey,
    RefinementId,
    RequestBody,
    RotationBody,
    Tenant,
    TheCells,
    TheStore,
    body_as,
)
from app.api.openapi import UNREADABLE, body, problems
from app.contract import patterns
from app.contract.access import Rotation
from app.contract.errors import (
    Conflict,
    InvalidRequest,
    MalformedHeader,
    NotFound,
    NotStored,
    RefinementNotFound,
)
from app.contract.validators import ENDPOINTS
from app.contract.webhooks import DeliveryList, EndpointList, EndpointRequest, RegisteredEndpoint

deliveries = APIRouter(
    prefix="/v1/refinements/{refinement_id}/webhooks", tags=["webhooks"], dependencies=V1
)
endpoints = APIRouter(prefix="/v1/endpoints", tags=["webhooks"], dependencies=V1)

WebhookId = Annotated[str, Path(pattern=patterns.WEBHOOK_ID.regex, examples=[examples.WEBHOOK_ID])]
EndpointId = Annotated[
    str, Path(pattern=patterns.ENDPOINT_ID.regex, examples=[examples.ENDPOINT_ID])
]
EndpointBody = Annotated[RequestBody[EndpointRequest], Depends(body_as(EndpointRequest))]


@deliveries.get("", operation_id="listWebhooks", responses=problems(RefinementNotFound, NotStored))
async def list_(refinement_id: RefinementId, tenant: Tenant, store: TheStore) -> DeliveryList:
    """Return the webhooks of a refinement and every attempt to deliver them."""
    return DeliveryList(data=await store.deliveries(tenant, refinement_id))


@deliveries.post(
    "/{webhook_id}/redeliver",
    operation_id="redeliverWebhook",
    status_code=202,
    responses=problems(RefinementNotFound, NotFound, NotStored),
)
async def redeliver(
    refinement_id: RefinementId, webhook_id: WebhookId, tenant: Tenant, store: TheStore
) -> DeliveryList:
    """Send a webhook again now, with the same id, whatever has become of it."""
    await store.bring_back(tenant, refinement_id)
    await store.webhooks.redeliver(tenant, refinement_id, webhook_id)
    return DeliveryList(data=await store.deliveries(tenant, refinement_id))


@endpoints.post(
    "",
    operation_id="registerEndpoint",
    status_code=201,
    response_model=RegisteredEndpoint,
    responses=problems(*UNREADABLE, Conflict)
    | {200: {"model": RegisteredEndpoint, "description": "It was registered before."}},
    openapi_extra=body(EndpointRequest, examples.ENDPOINTS),
)
async def register(
    request: EndpointBody, tenant: Tenant, store: TheStore, response: Response
) -> RegisteredEndpoint:
    """Register an endpoint of webhooks, validators or tools, and learn the secret that signs.

    An endpoint is scheme, host, port and path of a URL. Its secret signs the calls that bring none
    of their own, registered or not; this response is the only one that shows it. Registered
    again, it is returned with status 200 and without its secret: rotate that if it was lost.
    """
    if not store.webhooks.can_sign:
        raise InvalidRequest(ENDPOINTS.missing)
    registered = await store.webhooks.register(tenant, request.content.url)
    if registered.secret is None:
        response.status_code = 200
    return registered


@endpoints.get("", operation_id="listEndpoints", responses=problems())
async def list_endpoints(tenant: Tenant, cells: TheCells) -> EndpointList:
    """Return the registered endpoints, and which of them are paused."""
    found = await cells.ask(lambda store: store.webhooks.endpoints(tenant))
    worst: dict[str, RegisteredEndpoint] = {}
    for endpoint in sorted((one for _, of_cell in found for one in of_cell), key=_failing):
        worst[endpoint.id] = endpoint
    return EndpointList(data=tuple(sorted(worst.values(), key=lambda endpoint: endpoint.url)))


def _failing(endpoint: RegisteredEndpoint) -> tuple[bool, int]:
    """Return how badly calls of an endpoint fail, as one of several cells sees it."""
    return endpoint.paused_since is not None, endpoint.failures


@endpoints.get("/{endpoint_id}", operation_id="getEndpoint", responses=problems(NotFound))
async def get(endpoint_id: EndpointId, tenant: Tenant, cells: TheCells) -> RegisteredEndpoint:
    """Return an endpoint, without its secret."""
    found = await cells.ask(lambda store: store.webhooks.endpoint(tenant, endpoint_id))
    return max((endpoint for _, endpoint in found), key=_failing)


@endpoints.post(
    "/{endpoint_id}/rotate",
    operation_id="rotateSecret",
    responses=problems(MalformedHeader, NotFound, *UNREADABLE),
    openapi_extra=body(Rotation, examples.ROTATIONS, is_required=False),
)
async def rotate(
    endpoint_id: EndpointId,
    rotation: RotationBody,
    key: IdempotencyKey,
    tenant: Tenant,
    store: TheStore,
) -> RegisteredEndpoint:
    """Give an endpoint a new secret, which only this response shows.

    For `overlap_s` seconds calls have two signatures, under the new and under the old secret. A
    rotation sent again with the same `Idempotency-Key` takes effect once.
    """
    return await store.webhooks.rotate(tenant, endpoint_id, rotation.content.overlap_s, key)


@endpoints.post(
    "/{endpoint_id}/resume", operation_id="resumeEndpoint", responses=problems(NotFound)
)
async def resume(endpoint_id: EndpointId, tenant: Tenant, cells: TheCells) -> RegisteredEndpoint:
    """Send to an endpoint again that is paused because it failed too often.

    What waits for it is sent when it is due; an attempt that succeeds resumes it too.
    """
    found = await cells.ask(lambda store: store.webhooks.resume(tenant, endpoint_id))
    return found[0][1]


@endpoints.delete(
    "/{endpoint_id}",
    operation_id="removeEndpoint",
    status_code=204,
    responses=problems(NotFound),
)
async def remove(endpoint_id: EndpointId, tenant: Tenant, store: TheStore) -> None:
    """Forget an endpoint. Calls of it go on, under the same secret, as long as requests name it."""
    await store.webhooks.remove(tenant, endpoint_id)
