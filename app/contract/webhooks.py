"""Webhooks: where the news of a refinement goes, how far it got, and the secrets that sign it."""

from datetime import datetime
from typing import Literal, get_args

from pydantic import Field

from app.contract import Contract
from app.contract.endpoints import Endpoint, TimeoutS, Url
from app.contract.snapshot import Snapshot

WebhookEvent = Literal[
    "refinement.completed", "refinement.failed", "refinement.canceled", "refinement.paused"
]
WEBHOOK_EVENTS: tuple[WebhookEvent, ...] = get_args(WebhookEvent)


class Webhook(Endpoint):
    """An endpoint that is told when the refinement ends, or waits for a reviewer.

    It receives a `WebhookMessage` by POST, signed according to Standard Webhooks 1.0, and must
    answer 2xx. Anything else is repeated for a day, with the same `webhook-id`; 410 ends that.
    """

    url: Url = Field(
        description="Where messages go. A registered endpoint (`/v1/endpoints`) is named by its URL"
        " too, not by its id: its secret signs them."
    )
    events: tuple[WebhookEvent, ...] = Field(
        WEBHOOK_EVENTS, min_length=1, max_length=4, description="What it is told of."
    )
    timeout_s: TimeoutS = Field(15, description="Timeout of one attempt in seconds.")


class WebhookMessage(Contract):
    """The body of a webhook."""

    type: WebhookEvent
    timestamp: datetime = Field(description="When it happened, by the clock of the server.")
    data: Snapshot = Field(
        description="The refinement as it ended; of `refinement.paused`, as it is when sent."
    )


class Attempt(Contract):
    """One attempt to deliver a webhook."""

    at: datetime
    status: int | None = Field(description="HTTP status of the answer; null without an answer.")
    detail: str


DeliveryStatus = Literal["pending", "delivered", "failed", "gone"]


class Delivery(Contract):
    """The delivery of a webhook, as far as it got."""

    id: str = Field(description="`webhook-id` of every attempt.", examples=["msg_01J..._11"])
    type: WebhookEvent | str
    event: int = Field(description="Number of the event that it is about.")
    url: str
    endpoint: str = Field(description="Id of the endpoint, see `/v1/endpoints`.")
    status: DeliveryStatus = Field(
        description="`failed`: given up after a day; `gone`: the endpoint answered 410."
    )
    is_paused: bool = Field(
        description="Whether it waits because the endpoint has failed too often."
    )
    attempts: tuple[Attempt, ...]
    next_attempt_at: datetime | None


class DeliveryList(Contract):
    """The webhooks of a refinement, the oldest first."""

    data: tuple[Delivery, ...]


class EndpointRequest(Contract):
    """An endpoint to register."""

    url: Url


class RegisteredEndpoint(Contract):
    """An endpoint of a tenant: scheme, host, port and path of a URL, with a secret of its own."""

    id: str
    url: str
    secret: str | None = Field(
        None, description="Signs calls that bring no secret. Shown once, when it is new."
    )
    previous_until: datetime | None = Field(
        description="Until when the secret before it signs as well."
    )
    failures: int = Field(description="Failed attempts since the last success.")
    paused_since: datetime | None = Field(
        description="Since when webhooks wait, apart from one attempt now and then."
    )
    delivered_at: datetime | None = Field(description="When a webhook was last accepted.")


class EndpointList(Contract):
    """The endpoints of a tenant."""

    data: tuple[RegisteredEndpoint, ...]
