"""The process that sends webhooks: `hone webhooks`. Several may run.

The append that ends a refinement puts its webhook into an outbox. A process takes what is due with
a lease and sends it; what was not settled when the lease ends is taken again. So every webhook is
sent at least once, and always with the same id.
"""

import asyncio
import logging
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

import uvloop
from pydantic_core import from_json, to_json

from app.contract.batches import BATCH_COMPLETED, BatchMessage
from app.contract.endpoints import Endpoint
from app.contract.errors import NotFound, Unavailable
from app.contract.webhooks import Attempt
from app.queue import RefinementQueue
from app.settings import InvalidSettings, Settings, read_environment
from app.store import Store, UnusableRedis, open_signing, open_store
from app.store.signing_secrets import url_without_query
from app.store.webhooks import DeliveryState, TakenWebhook, WebhookStore
from app.telemetry import (
    NO_TRACES,
    Origin,
    Traces,
    about_request,
    configure_logs,
    current_span,
    metrics,
    open_traces,
)
from workers.outbound.guarded_client import Answered, EndpointSender, open_endpoints

SCHEDULE_S = (5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 21_600, 28_800)
"""Seconds before each further attempt: about 22 hours in all."""

JITTER = 0.1
MOST_WAIT_S = 6 * 3600.0
"""Longest `Retry-After` that is obeyed."""

MARGIN_S = 10.0
"""Seconds after the timeout of an attempt until another process takes what this one leaves."""

GONE = 410
IN_FLIGHT = 100
OF_ONE_TENANT = 80
TO_ONE_ENDPOINT = 20
BUSY_S = 1.0
POLL_S = 0.5
CONNECT_AGAIN_S = 1.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pace:
    """How often and how fast webhooks are sent; `random` returns numbers from 0 to 1."""

    schedule_s: Sequence[float] = SCHEDULE_S
    margin_s: float = MARGIN_S
    poll_s: float = POLL_S
    in_flight: int = IN_FLIGHT
    of_one_tenant: int = OF_ONE_TENANT
    to_one_endpoint: int = TO_ONE_ENDPOINT
    random: Callable[[], float] = random.random

    def wait_s(self, failures: int, retry_after_s: float | None) -> float | None:
        """Return the seconds until the attempt after so many failures; None if there is none."""
        if failures > len(self.schedule_s):
            return None
        spread = 1 + JITTER * (2 * self.random() - 1)
        return max(self.schedule_s[failures - 1] * spread, min(retry_after_s or 0.0, MOST_WAIT_S))


class WebhookSender:
    """Sends what is due: `in_flight` at a time, fewer of one tenant, and few to one endpoint."""

    def __init__(
        self,
        store: Store,
        webhooks: WebhookStore,
        client: EndpointSender,
        pace: Pace = Pace(),
        traces: Traces = NO_TRACES,
    ) -> None:
        self._store = store
        self._webhooks = webhooks
        self._client = client
        self._pace = pace
        self._traces = traces
        self._sending: set[asyncio.Task[None]] = set()
        self._busy: Counter[str] = Counter()

    async def run(self, stopping: asyncio.Event, grace_s: float = 0.0) -> None:
        """Send until told to stop; what is under way then has `grace_s` seconds."""
        is_away = False
        while not stopping.is_set():
            try:
                taken, is_away = await self.send_due(), False
                if taken:
                    await self._have_a_place()
                    continue
            except Unavailable as error:
                if not is_away:
                    log.warning("webhooks wait: %s", error)
                is_away = True
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), self._pace.poll_s)
        if self._sending:
            await asyncio.wait(self._sending, timeout=grace_s)
        await self.stop()

    async def _have_a_place(self) -> None:
        """Return when fewer than `in_flight` are under way, or after a while."""
        if len(self._sending) >= self._pace.in_flight:
            await asyncio.wait(
                self._sending, timeout=self._pace.poll_s, return_when=asyncio.FIRST_COMPLETED
            )

    async def stop(self) -> None:
        """Drop what is under way: it is sent again when its lease has ended."""
        for task in self._sending:
            task.cancel()
        if self._sending:
            await asyncio.wait(self._sending)

    async def send_due(self) -> int:
        """Start sending what is due; return how much that is."""
        free = self._pace.in_flight - len(self._sending)
        taken = await self._webhooks.lease_due(free, self._pace.margin_s) if free else []
        for webhook in taken:
            task = asyncio.create_task(self._send_safely(webhook))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        return len(taken)

    async def _send_safely(self, taken: TakenWebhook) -> None:
        try:
            await self.send(taken)
        except Unavailable as error:
            log.warning("%s is sent again: %s", taken.id, error)
        except Exception:
            log.exception("%s is sent again", taken.id)

    async def send(self, taken: TakenWebhook) -> None:
        """Make one attempt and settle it, unless its endpoint is paused or busy."""
        origin = Origin.decode(taken.origin)
        attributes = {
            "hone.refinement.id": taken.refinement_id,
            "hone.tenant": taken.tenant,
            "hone.webhook.id": taken.id,
            "hone.webhook.type": taken.state.type,
        }
        with (
            about_request(origin.request_id),
            self._traces.span(origin, "webhook", "client", attributes),
        ):
            await self._send(taken)

    async def _send(self, taken: TakenWebhook) -> None:
        try:
            webhook = await self._store.webhook(taken.tenant, taken.refinement_id)
        except NotFound:  # erased in the meantime
            return
        assert webhook is not None
        tenant, endpoint = taken.tenant, f"{taken.tenant} {url_without_query(webhook.url)}"
        most = {tenant: self._pace.of_one_tenant, endpoint: self._pace.to_one_endpoint}
        if any(self._busy[name] >= places for name, places in most.items()):
            await self._webhooks.settle(taken, taken.state, BUSY_S)
            return
        self._busy.update(most.keys())
        try:
            wait_s = await self._webhooks.gate(taken.tenant, webhook.url)
            if wait_s > 0:
                await self._webhooks.settle(taken, taken.state, wait_s)
            else:
                await self._attempt(taken, webhook)
        finally:
            self._busy -= Counter(most.keys())  # names without any are left out

    async def _attempt(self, taken: TakenWebhook, webhook: Endpoint) -> None:
        try:
            body = await self._body(taken)
        except NotFound:
            return
        answer = await self._client.deliver(webhook, body, taken.id, taken.tenant)
        state, wait_s = self._after(taken.state, answer, taken.at)
        is_there = await self._webhooks.settle(taken, state, wait_s)
        facts: dict[str, object] = {
            "refinement": taken.refinement_id,
            "tenant": taken.tenant,
            "webhook": taken.id,
        }
        facts |= {"endpoint": url_without_query(webhook.url), "status": answer.status}
        current_span().set(
            {"http.response.status_code": answer.status},
            error=None if answer.is_accepted else str(answer.status or "unreachable"),
        )
        metrics.WEBHOOKS.labels("delivered" if answer.is_accepted else "refused").inc()
        said = "webhook delivered" if answer.is_accepted else "webhook was not accepted"
        log.log(logging.INFO if answer.is_accepted else logging.WARNING, said, extra=facts)
        if is_there and await self._webhooks.note(taken, webhook.url, accepted=answer.is_accepted):
            log.warning("%s is paused: it failed too often", url_without_query(webhook.url))

    def _after(
        self, state: DeliveryState, answer: Answered, at: datetime
    ) -> tuple[DeliveryState, float | None]:
        """Return the new state, and the seconds until the next attempt, if there is one."""
        attempt = Attempt(at=at, status=answer.status, detail=answer.detail)
        if answer.is_accepted:
            return state.after(attempt, "delivered"), None
        if answer.status == GONE:
            return state.after(attempt, "gone"), None
        wait_s = self._pace.wait_s(state.tried + 1, answer.retry_after_s)
        return state.after(attempt, "failed" if wait_s is None else "pending"), wait_s

    async def _body(self, taken: TakenWebhook) -> bytes:
        """Return the message: the event's own snapshot, or the current one if it has none."""
        where = (taken.tenant, taken.refinement_id)
        if taken.state.type == BATCH_COMPLETED:
            batch = await self._store.batches.get(*where)
            assert batch.ended_at is not None
            message = BatchMessage(type=BATCH_COMPLETED, timestamp=batch.ended_at, data=batch)
            return message.model_dump_json().encode()
        (event,) = await self._store.events(*where, taken.event - 1, 1)
        stored = from_json(event.json)
        if not stored["type"].endswith(("completed", "failed", "canceled")):
            stored["data"] = (await self._store.snapshot(*where)).model_dump(mode="json")
        return to_json({"type": stored["type"], "timestamp": stored["at"], "data": stored["data"]})


async def send_webhooks(
    settings: Settings, pace: Pace = Pace(), traces: Traces = NO_TRACES
) -> None:
    """Send the webhooks of all cells, or of `HONE_CELL`, until a signal arrives.

    Raises InvalidSettings without a secret key.
    """
    if not settings.secret_key:
        raise InvalidSettings("HONE_SECRET_KEY is not set: it signs webhooks")
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    served = [*range(settings.cells)] if settings.cell is None else [settings.cell]
    cells = map(settings.in_cell, served)
    await asyncio.gather(*(_send_from(cell, pace, traces, stopping) for cell in cells))


async def _send_from(cell: Settings, pace: Pace, traces: Traces, stopping: asyncio.Event) -> None:
    """Send the webhooks of one cell, for which `cell` has the settings."""
    while not stopping.is_set():
        try:
            async with (
                open_store(cell, RefinementQueue(cell.queue)) as store,
                open_signing(cell) as signing,
                open_endpoints(
                    signing.of,
                    allowed=cell.outbound_allow,
                    egress_proxy=cell.egress_proxy,
                ) as client,
            ):
                log.info("sends webhooks")
                sender = WebhookSender(store, store.webhooks, client, pace, traces)
                await sender.run(stopping, cell.grace_s)
        except Unavailable as error:
            log.warning("waiting for Redis: %s", error)
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), CONNECT_AGAIN_S)


def main() -> int:
    """Run until a signal arrives; return 0, or 1 if it cannot start. The log says why."""
    configure_logs("webhooks")
    try:
        settings = read_environment()
        configure_logs("webhooks", settings.log_format, settings.log_level)
        metrics.serve_metrics(*settings.metrics_at())
        with open_traces("webhooks") as traces:
            uvloop.run(send_webhooks(settings, traces=traces))
    except (UnusableRedis, InvalidSettings) as error:
        log.error("cannot start: %s", error)  # noqa: TRY400 - no traceback
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
