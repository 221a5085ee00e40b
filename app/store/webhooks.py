"""The outbox of webhooks, their deliveries, and the endpoints that they go to."""

import asyncio
from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime
from typing import Any
from uuid import uuid4

from pydantic import TypeAdapter

from app.contract.errors import BatchNotFound, Conflict, NotFound, RefinementNotFound
from app.contract.values import value
from app.contract.webhooks import Attempt, Delivery, DeliveryStatus, RegisteredEndpoint
from app.store.redis import keys
from app.store.redis.codec import UNKNOWN_FIELDS, Summary, moment, paired
from app.store.redis.committer import Committer, redis_time_ms, replies_in_order
from app.store.redis.connection import refusals
from app.store.redis.scripts import (
    ENDPOINT_CHANGE,
    ENDPOINT_OUTCOME,
    MOST_ENDPOINTS,
    REDELIVER,
    SETTLE_WEBHOOK,
    TAKE_WEBHOOKS,
    LuaScript,
)
from app.store.signing_secrets import EndpointSecrets, endpoint_id
from app.store.state import BATCH_PREFIX

FAILURES = 10
PAUSE_S = 1_800.0
PROBE_S = 600.0
"""An endpoint is paused after so many failures in a row and so many seconds without a success;
while it is, one webhook is tried every `PROBE_S`."""

OVERDUE_S = 60
MOST_ATTEMPTS = 50
"""Attempts that are kept of a webhook: the last ones."""


@value(slots=True)
class DeliveryState:
    """What is stored of a webhook. `tried` counts attempts since it was last made due by hand."""

    type: str
    status: DeliveryStatus = "pending"
    tried: int = 0
    attempts: tuple[Attempt, ...] = field(default=())

    def after(self, attempt: Attempt, status: DeliveryStatus) -> "DeliveryState":
        """Return the state after one more attempt."""
        kept = (*self.attempts, attempt)[-MOST_ATTEMPTS:]
        return replace(self, status=status, tried=self.tried + 1, attempts=kept)


_STATE = TypeAdapter(DeliveryState)


@value(slots=True)
class TakenWebhook:
    """A webhook that this process is to send, about a refinement or a batch."""

    refinement_id: str
    event: int
    tenant: str
    nonce: str
    state: DeliveryState
    at: datetime  # the time of Redis
    origin: str = ""  # origin of the refinement or batch

    @property
    def id(self) -> str:
        """The same for every attempt, and for no other ending."""
        return webhook_id(self.refinement_id, self.event)


class WebhookNotFound(NotFound):
    """The refinement has no such webhook."""


class EndpointNotFound(NotFound):
    """The tenant has no such endpoint."""


def webhook_id(refinement_id: str, event: int) -> str:
    """Return the id of the message about an event."""
    return f"msg_{refinement_id.rpartition('_')[2]}_{event}"


class WebhookStore:
    """Operations of the API and of the processes that send. All raise Unavailable."""

    def __init__(self, committer: Committer, secrets: EndpointSecrets | None) -> None:
        self._committer = committer
        self._secrets = secrets

    @property
    def can_sign(self) -> bool:
        """Whether there is a secret key."""
        return self._secrets is not None

    async def lease_due(self, most: int, margin_s: float) -> list[TakenWebhook]:
        """Lease webhooks that are due; others get them `margin_s` after an attempt timed out."""
        nonce = uuid4().hex
        found = await self._run(TAKE_WEBHOOKS, most, round(margin_s * 1000), nonce)
        return [
            TakenWebhook(
                refinement_id.decode(),
                int(event),
                tenant.decode(),
                nonce,
                _STATE.validate_json(state, extra=UNKNOWN_FIELDS),
                moment(at),
                origin.decode(),
            )
            for refinement_id, event, tenant, state, origin, at in found
        ]

    async def settle(self, taken: TakenWebhook, state: DeliveryState, wait_s: float | None) -> bool:
        """Store what came of it, and when it is due again, if it is.

        Nothing happens if another process has taken it, unless it was accepted, or if it was
        erased: then it returns False.
        """
        answer = await self._run(
            SETTLE_WEBHOOK,
            taken.refinement_id,
            taken.event,
            taken.nonce,
            int(state.status == "delivered"),
            _STATE.dump_json(state),
            "" if wait_s is None else round(wait_s * 1000),
        )
        return bool(answer != b"MISSING")

    async def overdue(self) -> int:
        """Return how many webhooks have been due for a minute, so that nothing seems to send."""
        with refusals():
            until = await redis_time_ms(self._committer) - OVERDUE_S * 1000
            return int(await self._committer.execute("ZCOUNT", keys.OUTBOX, "-inf", until))

    async def gate(self, tenant: str, url: str) -> float:
        """Return in how many seconds an endpoint may be called; 0 of a paused one is for once."""
        known_as, execute = endpoint_id(tenant, url), self._committer.execute
        with refusals():
            if not await execute("HEXISTS", keys.endpoint(tenant, known_as), "paused_at"):
                return 0.0
            key = keys.probe(tenant, known_as)
            if await execute("SET", key, 1, "NX", "PX", round(PROBE_S * 1000)):
                return 0.0
            return max(0, int(await execute("PTTL", key))) / 1000

    async def note(self, taken: TakenWebhook, url: str, *, accepted: bool) -> bool:
        """Record how an attempt at an endpoint ended; return whether the endpoint is paused."""
        attempt = f"{taken.id} {taken.state.tried} {taken.nonce}"
        args = (attempt, int(accepted), FAILURES, round(PAUSE_S * 1000))
        key = keys.endpoint(taken.tenant, endpoint_id(taken.tenant, url))
        return bool(await self._run(ENDPOINT_OUTCOME, key, *args))

    async def deliveries(
        self, tenant: str, refinement_id: str, url: str, archived: Summary | None = None
    ) -> tuple[Delivery, ...]:
        """Return the webhooks of a refinement; raise RefinementNotFound.

        `archived`: what Redis had of them, if the record is archived.
        """
        found = await self._stored(tenant, refinement_id, archived)
        known_as = endpoint_id(tenant, url)
        with refusals():
            key = keys.endpoint(tenant, known_as)
            paused = await self._committer.execute("HEXISTS", key, "paused_at")
        return tuple(
            _delivery(refinement_id, event, state, due, url, known_as, bool(paused))
            for event, (state, due) in sorted(found.items())
        )

    async def redeliver(self, tenant: str, refinement_id: str, wanted: str) -> None:
        """Make a webhook due now, whatever has become of it.

        Raises RefinementNotFound, and WebhookNotFound.
        """
        while True:
            found = await self._stored(tenant, refinement_id)
            events = {webhook_id(refinement_id, number): number for number in found}
            if wanted not in events:
                raise WebhookNotFound(f"{refinement_id} has no webhook {wanted}")
            event = events[wanted]
            before, _ = found[event]
            state = _STATE.validate_json(before, extra=UNKNOWN_FIELDS)
            again = _STATE.dump_json(replace(state, status="pending", tried=0))
            args = (refinement_id, tenant, event, again, before)
            if await self._run(REDELIVER, *args) != b"CHANGED":
                return

    async def _stored(
        self, tenant: str, record_id: str, archived: Summary | None = None
    ) -> dict[int, tuple[bytes, float | None]]:
        """Return state, and when it is due if it is, of each webhook of a refinement or batch."""
        is_batch = record_id.startswith(BATCH_PREFIX)
        with refusals():
            owner, stored = await replies_in_order(
                self._committer.execute(
                    "HGET", (keys.BATCH if is_batch else keys.SUMMARY) + record_id, "tenant"
                ),
                self._committer.execute("HGETALL", keys.DELIVERIES + record_id),
            )
            if owner != tenant.encode():
                raise BatchNotFound(record_id) if is_batch else RefinementNotFound(record_id)
            stored = archived or stored
            events = [name for name in stored if name.isdigit()]
            if not events:
                return {}
            members = [f"{record_id} {event.decode()}" for event in events]
            due = await self._committer.execute("ZMSCORE", keys.OUTBOX, *members)
        return {int(event): (stored[event], at) for event, at in zip(events, due, strict=True)}

    async def register(self, tenant: str, url: str) -> RegisteredEndpoint:
        """Return an endpoint, with its secret if it was not registered before.

        Raises Conflict if the tenant has `MOST_ENDPOINTS` already.
        """
        return await self._changed(tenant, endpoint_id(tenant, url), "register", url)

    async def rotate(
        self, tenant: str, known_as: str, overlap_s: int, command_id: str | None = None
    ) -> RegisteredEndpoint:
        """Give an endpoint a new secret; the old one signs as well for a while.

        The last command, repeated with its id, is answered as the first time.
        """
        return await self._changed(tenant, known_as, "rotate", overlap_s * 1000, command_id)

    async def resume(self, tenant: str, known_as: str) -> RegisteredEndpoint:
        """Send to an endpoint again that is paused."""
        return await self._changed(tenant, known_as, "resume")

    async def remove(self, tenant: str, known_as: str) -> None:
        """Forget an endpoint. If it is registered again, its secret is the same."""
        await self._changed(tenant, known_as, "remove")

    async def endpoint(self, tenant: str, known_as: str) -> RegisteredEndpoint:
        """Return one endpoint; raise EndpointNotFound."""
        return await self._changed(tenant, known_as, "read")

    async def endpoints(self, tenant: str) -> list[RegisteredEndpoint]:
        """Return the endpoints of a tenant, by URL."""
        with refusals():
            ids = await self._committer.execute("SMEMBERS", keys.ENDPOINTS + tenant)
            names = [keys.endpoint(tenant, known_as.decode()) for known_as in ids]
            stored = await asyncio.gather(
                *(self._committer.execute("HGETALL", name) for name in names)
            )
        found = zip(ids, stored, strict=True)
        shown = [
            _endpoint(known_as.decode(), fields) for known_as, fields in found if b"url" in fields
        ]
        return sorted(shown, key=lambda endpoint: endpoint.url)

    async def _changed(
        self,
        tenant: str,
        known_as: str,
        action: str,
        given: str | int = "",
        command_id: str | None = None,
    ) -> RegisteredEndpoint:
        command = (command_id or uuid4().hex, action)
        reply = await self._run(ENDPOINT_CHANGE, known_as, tenant, *command, given)
        if reply is None:
            raise EndpointNotFound(f"endpoint {known_as} was not found")
        if reply == b"FULL":
            raise Conflict(f"there are {MOST_ENDPOINTS} endpoints: remove some first")
        is_new, stored = reply
        fields = paired(stored)
        if action == "remove":
            fields = {**fields, b"url": b""}
        shown = _endpoint(known_as, fields)
        if not is_new or self._secrets is None:
            return shown
        secret = self._secrets.secret(tenant, shown.url, int(fields.get(b"secret", 0)))
        return shown.model_copy(update={"secret": secret})

    async def _run(self, script: LuaScript, *args: str | bytes | int) -> Any:
        with refusals():
            return await self._committer.submit(script, *args)


def _delivery(
    refinement_id: str,
    event: int,
    stored: bytes,
    due: float | None,
    url: str,
    known_as: str,
    is_paused: bool,
) -> Delivery:
    state = _STATE.validate_json(stored, extra=UNKNOWN_FIELDS)
    is_pending = state.status == "pending"
    return Delivery(
        id=webhook_id(refinement_id, event),
        type=state.type,
        event=event,
        url=url,
        endpoint=known_as,
        status=state.status,
        is_paused=is_paused and is_pending,
        attempts=state.attempts,
        next_attempt_at=moment(int(due)) if is_pending and due else None,
    )


def _endpoint(known_as: str, fields: Mapping[bytes, bytes]) -> RegisteredEndpoint:
    def time(name: bytes) -> datetime | None:
        return moment(int(fields[name])) if name in fields else None

    return RegisteredEndpoint(
        id=known_as,
        url=fields[b"url"].decode(),
        previous_until=time(b"previous_until"),
        failures=int(fields.get(b"failures", 0)),
        paused_since=time(b"paused_at"),
        delivered_at=time(b"delivered_at"),
    )
