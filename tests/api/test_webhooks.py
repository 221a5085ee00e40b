"""Webhooks: what is sent when, how often, how it is signed, and what can be seen of it."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from aiohttp import web
from redis.asyncio import Redis
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError

from app.cli.processes import environment_of
from app.contract.endpoints import Endpoint
from app.contract.webhooks import Webhook
from app.queue import RefinementQueue
from app.settings import InvalidSettings, Settings
from app.store import Store, WorkerStore, open_signing, open_store
from app.store.redis import keys as redis_keys
from app.store.webhooks import FAILURES, PAUSE_S
from tests.api.api_client import DRAFT, ManualWorker, ended, paused, problem, submitted
from tests.local_endpoint import SECRET, THIS_MACHINE, answering_with, endpoint
from tests.store.store_harness import be_up, everything, expire_retention, new
from tests.waiting import TIMEOUT_S
from workers.outbound.guarded_client import Answered, open_endpoints
from workers.validators.running import open_server_resources
from workers.webhooks import Pace, WebhookSender, send_webhooks

ROOT = Path(__file__).parent.parent.parent
URL = "https://hooks.example.com/hone?id=1"
HOOK: dict[str, Any] = {"url": URL, "secret": SECRET}
AT_ONCE_AGAIN = HOOK | {"timeout_s": 0.0001}
"""What a process leaves, another one takes at once."""

ACCEPTED, AWAY, GONE = Answered(204, ""), Answered(503, "it answered 503"), Answered(410, "gone")
AT_ONCE = Pace(schedule_s=(0,) * 40, margin_s=60)


@dataclass
class ScriptedReceiver:
    """Gives these answers in turn, and then accepts everything."""

    answers: list[Answered | Exception] = field(default_factory=list)
    got: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    async def deliver(
        self, endpoint: Endpoint, body: bytes, message_id: str, tenant: str
    ) -> Answered:
        """Take down what was sent."""
        self.got.append((message_id, json.loads(body)))
        answer = self.answers.pop(0) if self.answers else ACCEPTED
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def ids(self) -> list[str]:
        return [message_id for message_id, _ in self.got]

    @property
    def types(self) -> list[str]:
        return [body["type"] for _, body in self.got]


@pytest.fixture
async def store(keyed: Settings, redis_url: str) -> AsyncIterator[Store]:
    async with open_store(keyed, RefinementQueue(keyed.queue)) as store:
        yield store


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    async with Redis.from_url(redis_url, protocol=2) as client:
        yield client


async def sent(store: Store, receiver: ScriptedReceiver, pace: Pace = AT_ONCE) -> int:
    """Send what is due, once each; return how much that was."""
    taken = await store.webhooks.lease_due(100, pace.margin_s)
    for it in taken:
        await WebhookSender(store, store.webhooks, receiver, pace).send(it)
    return len(taken)


async def log(api: httpx.AsyncClient, refinement_id: str) -> list[dict[str, Any]]:
    answer = await api.get(f"/v1/refinements/{refinement_id}/webhooks")
    found: list[dict[str, Any]] = answer.json()["data"]
    return found


async def test_the_final_snapshot_is_sent_with_one_id_per_ending(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore, store: Store
) -> None:
    receiver = ScriptedReceiver([AWAY])
    refinement_id = await ended(keyed_api, keyed_worker, webhook=HOOK)
    shown = (await keyed_api.get(f"/v1/refinements/{refinement_id}")).json()
    assert [await sent(store, receiver) for _ in range(3)] == [1, 1, 0]
    first, second = receiver.got
    assert first == second
    assert first[0] == f"msg_{refinement_id.removeprefix('ref_')}_{shown['last_event']}"
    assert first[1] == {
        "type": "refinement.completed",
        "timestamp": shown["ended_at"],
        "data": shown,
    }
    (delivery,) = await log(keyed_api, refinement_id)
    assert (delivery["status"], delivery["url"]) == ("delivered", URL)
    assert [it["status"] for it in delivery["attempts"]] == [503, 204]
    assert delivery["next_attempt_at"] is None


@pytest.mark.parametrize(
    ("events", "wanted"),
    [
        (None, ["refinement.paused", "refinement.canceled"]),
        (["refinement.paused"], ["refinement.paused"]),
        (["refinement.failed"], []),
    ],
)
async def test_only_the_events_that_were_asked_for_are_sent(
    keyed_api: httpx.AsyncClient,
    keyed_worker: WorkerStore,
    store: Store,
    events: list[str] | None,
    wanted: list[str],
) -> None:
    hook = HOOK | ({"events": events} if events else {})
    refinement_id = await paused(keyed_api, keyed_worker, webhook=hook)
    receiver = ScriptedReceiver()
    await sent(store, receiver)
    await keyed_api.post(f"/v1/refinements/{refinement_id}/cancel")
    await sent(store, receiver)
    assert receiver.types == wanted
    if wanted:
        assert receiver.got[0][1]["data"]["review"]["path"] == "iterations/0"


async def test_a_retried_refinement_ends_anew_with_another_id(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore, store: Store
) -> None:
    refinement_id = await submitted(keyed_api, webhook=HOOK)
    manual = await ManualWorker.claim(keyed_worker, refinement_id)
    await manual.fail("iterations/0/critique")
    await keyed_api.post(f"/v1/refinements/{refinement_id}/retry")
    receiver = ScriptedReceiver()
    await sent(store, receiver)
    await keyed_api.post(f"/v1/refinements/{refinement_id}/cancel")
    await sent(store, receiver)
    assert receiver.types == ["refinement.failed", "refinement.canceled"]
    assert [it[1]["data"]["status"] for it in receiver.got] == ["failed", "canceled"]
    assert len(set(receiver.ids)) == 2


async def test_without_a_webhook_nothing_is_put_into_the_outbox(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore, redis: Redis
) -> None:
    refinement_id = await ended(keyed_api, keyed_worker)
    assert not await redis.exists(redis_keys.OUTBOX, redis_keys.DELIVERIES + refinement_id)
    assert await log(keyed_api, refinement_id) == []


async def test_410_ends_it_at_once_and_other_refusals_after_the_last_attempt(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore, store: Store
) -> None:
    gone = await ended(keyed_api, keyed_worker, webhook=HOOK)
    assert [await sent(store, ScriptedReceiver([GONE])) for _ in range(2)] == [1, 0]
    failed = await ended(keyed_api, keyed_worker, webhook=HOOK)
    receiver = ScriptedReceiver([Answered(302, "a redirect"), Answered(None, "no answer"), AWAY])
    pace = Pace(schedule_s=(0, 0))
    assert [await sent(store, receiver, pace) for _ in range(4)] == [1, 1, 1, 0]
    found = [(await log(keyed_api, it))[0] for it in (gone, failed)]
    assert [it["status"] for it in found] == ["gone", "failed"]
    assert [it["status"] for it in found[1]["attempts"]] == [302, None, 503]


async def test_one_that_is_sent_again_by_hand_keeps_its_id_and_its_log(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore, store: Store
) -> None:
    refinement_id = await ended(keyed_api, keyed_worker, webhook=HOOK)
    receiver = ScriptedReceiver([GONE])
    await sent(store, receiver)
    where = f"/v1/refinements/{refinement_id}/webhooks"
    again = await keyed_api.post(f"{where}/{receiver.ids[0]}/redeliver")
    assert (again.status_code, again.json()["data"][0]["status"]) == (202, "pending")
    await sent(store, receiver)
    assert receiver.ids[0] == receiver.ids[1]
    (delivery,) = await log(keyed_api, refinement_id)
    assert [it["status"] for it in delivery["attempts"]] == [410, 204]
    unknown = await keyed_api.post(f"{where}/{receiver.ids[0]}1/redeliver")
    problem(unknown, 404, "not_found")


@pytest.mark.parametrize("expires", [False, True])
async def test_what_is_erased_or_expires_is_not_sent_any_more(
    keyed_api: httpx.AsyncClient,
    keyed_worker: WorkerStore,
    store: Store,
    redis: Redis,
    expires: bool,
) -> None:
    refinement_id = await ended(keyed_api, keyed_worker, webhook=HOOK)
    (taken,) = await store.webhooks.lease_due(1, 60)
    if expires:
        await expire_retention(redis, refinement_id)
        await be_up(redis)
        await keyed_worker.check_due(10, include_queued=False)
    else:
        await keyed_api.delete(f"/v1/refinements/{refinement_id}")
    receiver = ScriptedReceiver()
    await WebhookSender(store, store.webhooks, receiver, AT_ONCE).send(taken)
    await store.webhooks.settle(taken, taken.state, 0)
    assert (receiver.got, await sent(store, receiver)) == ([], 0)
    stored = {key: it for key, it in (await everything(redis)).items() if b"rq" not in key}
    assert [it for it in ("hooks.example.com", refinement_id) if it in repr(stored)] == []


async def test_a_full_redis_keeps_no_webhook_from_being_sent(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore, store: Store, redis: Redis
) -> None:
    await ended(keyed_api, keyed_worker, webhook=HOOK)
    receiver = ScriptedReceiver()
    await redis.config_set("maxmemory", 1)
    try:
        (taken,) = await store.webhooks.lease_due(1, 60)
        await WebhookSender(store, store.webhooks, receiver).send(taken)
    finally:
        await redis.config_set("maxmemory", 0)
    assert len(receiver.got) == 1
    assert await redis.zcard(redis_keys.OUTBOX) == 0


async def test_two_processes_do_not_take_the_same_and_what_one_leaves_the_other_takes(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore, store: Store
) -> None:
    await ended(keyed_api, keyed_worker, webhook=AT_ONCE_AGAIN)
    (lost,) = await store.webhooks.lease_due(10, 0)  # its lease ends at once
    (taken,) = await store.webhooks.lease_due(10, 60)
    assert lost.id == taken.id
    assert await store.webhooks.lease_due(10, 60) == []
    await store.webhooks.settle(lost, lost.state, 0)  # the first comes late, and failed
    assert await store.webhooks.lease_due(10, 60) == []
    receiver = ScriptedReceiver()
    await WebhookSender(store, store.webhooks, receiver).send(lost)  # late, but it was accepted
    assert await store.webhooks.lease_due(10, 0) == []


class HangingReceiver(ScriptedReceiver):
    """Takes what comes, and answers for one URL only when it is let go."""

    def __init__(self, hangs_at: str = URL) -> None:
        super().__init__()
        self.hangs_at = hangs_at
        self.let_go = asyncio.Event()
        self.has_got = asyncio.Event()

    async def deliver(
        self, endpoint: Endpoint, body: bytes, message_id: str, tenant: str
    ) -> Answered:
        """Take down what was sent, and to where."""
        self.got.append((message_id, {"url": endpoint.url}))
        self.has_got.set()
        if endpoint.url == self.hangs_at:
            await self.let_go.wait()
        return ACCEPTED


async def test_an_attempt_that_ends_after_an_erasure_leaves_nothing(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore, store: Store, redis: Redis
) -> None:
    refinement_id = await ended(keyed_api, keyed_worker, webhook=HOOK)
    (taken,) = await store.webhooks.lease_due(1, 60)
    receiver = HangingReceiver()
    sender = WebhookSender(store, store.webhooks, receiver, AT_ONCE)
    sending = asyncio.create_task(sender.send(taken))
    await receiver.has_got.wait()
    await keyed_api.delete(f"/v1/refinements/{refinement_id}")
    receiver.let_go.set()
    await sending
    assert await redis.keys(redis_keys.ENDPOINTS + "*") == []


class AlwaysHanging(HangingReceiver):
    """Takes what comes, and answers nothing."""

    async def deliver(
        self, endpoint: Endpoint, body: bytes, message_id: str, tenant: str
    ) -> Answered:
        """Take down what was sent, and to where."""
        self.hangs_at = endpoint.url
        return await super().deliver(endpoint, body, message_id, tenant)


async def test_it_arrives_although_what_sends_it_is_dropped_twenty_times(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore, store: Store
) -> None:
    refinement_id = await ended(keyed_api, keyed_worker, webhook=AT_ONCE_AGAIN)
    receiver, ids = ScriptedReceiver(), list[str]()
    pace = Pace(margin_s=0)
    for kill in range(20):
        killed = HangingReceiver()
        sender = WebhookSender(store, store.webhooks, killed, pace)
        assert await sender.send_due() == 1
        if kill % 2:  # dies while it waits for the answer, else before it was sent
            await killed.has_got.wait()
        await sender.stop()
        ids += killed.ids
    assert await sent(store, receiver, pace) == 1
    assert len(ids) == 10
    assert {*ids, *receiver.ids} == {(await log(keyed_api, refinement_id))[0]["id"]}
    assert (await log(keyed_api, refinement_id))[0]["status"] == "delivered"
    assert await sent(store, receiver, pace) == 0


async def test_it_arrives_although_its_process_is_killed_twenty_times(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore, keyed: Settings
) -> None:
    pids, killed = list[int](), set[int]()

    async def kill(_request: web.Request) -> web.Response:
        while len(killed) < 20:
            if pids[-1] not in killed:
                os.kill(pids[-1], signal.SIGKILL)  # it waits for this answer
                killed.add(pids[-1])
                break
            await asyncio.sleep(0.01)  # its id is still to be read
        return web.Response(status=204)

    async with endpoint(kill) as (url, asked, _), mortal_sender(keyed, pids):
        hook = {"url": url, "secret": SECRET, "timeout_s": 0.1}
        refinement_id = await ended(keyed_api, keyed_worker, webhook=hook)
        async with asyncio.timeout(TIMEOUT_S):
            while (await log(keyed_api, refinement_id))[0]["status"] != "delivered":  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    (delivery,) = await log(keyed_api, refinement_id)
    assert len(asked) >= 21
    assert {it.headers["webhook-id"] for it in asked} == {delivery["id"]}
    assert len(killed) == 20


@asynccontextmanager
async def mortal_sender(settings: Settings, pids: list[int]) -> AsyncIterator[None]:
    """Run a process that sends webhooks, forked again whenever it was killed; `pids` grows."""
    settings = settings.model_copy(update={"outbound_allow": THIS_MACHINE})
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.api.mortal_sender"),
        env=os.environ | environment_of(settings),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    pids.append(int(await process.stdout.readline()))
    reading = asyncio.create_task(_read_pids(process.stdout, pids))
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        await reading


async def _read_pids(lines: asyncio.StreamReader, pids: list[int]) -> None:
    async for line in lines:
        pids.append(int(line))  # noqa: PERF401 - each as it comes


async def test_a_dead_endpoint_is_paused_shown_probed_and_resumed(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore, store: Store, redis: Redis
) -> None:
    registered = (await keyed_api.post("/v1/endpoints", json={"url": URL})).json()
    refinement_id = await ended(keyed_api, keyed_worker, webhook=HOOK)
    receiver = ScriptedReceiver([AWAY] * 99)
    for _ in range(FAILURES - 1):
        await sent(store, receiver)
    key = redis_keys.endpoint("default", registered["id"])
    since = int(await redis.hget(key, "failing_since") or 0)
    await redis.hset(key, "failing_since", str(since - round(PAUSE_S * 1000)))
    await sent(store, receiver)
    (shown,) = (await keyed_api.get("/v1/endpoints")).json()["data"]
    assert (shown["failures"], shown["url"], shown["secret"]) == (FAILURES, URL, None)
    assert shown["paused_since"] is not None
    assert (await log(keyed_api, refinement_id))[0]["is_paused"]
    assert [await sent(store, receiver) for _ in range(3)] == [1, 1, 0]  # one probe, one put off
    assert len(receiver.got) == FAILURES + 1
    resumed = await keyed_api.post(f"/v1/endpoints/{registered['id']}/resume")
    assert (resumed.json()["paused_since"], resumed.json()["failures"]) == (None, 0)
    where = f"/v1/refinements/{refinement_id}/webhooks"
    await keyed_api.post(f"{where}/{receiver.ids[0]}/redeliver")
    await sent(store, ScriptedReceiver())
    assert (await log(keyed_api, refinement_id))[0]["status"] == "delivered"


async def test_one_slow_endpoint_does_not_take_all_places(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore, store: Store
) -> None:
    for _ in range(3):
        await ended(keyed_api, keyed_worker, webhook=HOOK)
    await ended(keyed_api, keyed_worker, webhook={**HOOK, "url": "https://other.example.com"})
    receiver = HangingReceiver()
    sender = WebhookSender(store, store.webhooks, receiver, Pace(to_one_endpoint=2))
    assert await sender.send_due() == 4
    while len(receiver.got) < 3:  # noqa: ASYNC110 - two that hang, and the other
        await asyncio.sleep(0.01)
    receiver.let_go.set()
    stopping = asyncio.Event()
    stopping.set()
    await sender.run(stopping, grace_s=60)
    urls = sorted(told["url"] for _, told in receiver.got)
    assert urls == [URL, URL, "https://other.example.com"]


async def test_endpoints_of_one_tenant_that_hang_leave_places_for_the_others(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore, store: Store
) -> None:
    for number in range(3):
        await ended(keyed_api, keyed_worker, webhook=HOOK | {"url": f"{URL}&n={number}"})
    other = Webhook(url="https://other.example.com")
    made = new("acme")
    request = made.request.model_copy(update={"webhook": other})
    accepted = await store.create(replace(made, request=request), None)
    await store.cancel("acme", accepted.id)
    receiver = AlwaysHanging()
    sender = WebhookSender(store, store.webhooks, receiver, Pace(in_flight=3, of_one_tenant=2))
    async with asyncio.timeout(TIMEOUT_S):
        while other.url not in [told["url"] for _, told in receiver.got]:
            await sender.send_due()
            await asyncio.sleep(0.01)
    await sender.stop()
    assert len(receiver.got) == 3


async def test_the_secret_of_an_endpoint_is_shown_once_and_rotated_with_two_signatures(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore, store: Store, keyed: Settings
) -> None:
    async def signatures(url: str) -> tuple[str, dict[str, str]]:
        await ended(keyed_api, keyed_worker, webhook={"url": url})
        async with (
            open_signing(keyed) as signing,
            open_endpoints(signing.of, allowed=THIS_MACHINE) as client,
        ):
            (taken,) = await store.webhooks.lease_due(1, 60)
            await WebhookSender(store, store.webhooks, client).send(taken)
        request = asked[-1]
        return await request.text(), dict(request.headers)

    async with endpoint(answering_with("", 204)) as (url, asked, _):
        created = await keyed_api.post("/v1/endpoints", json={"url": url})
        first = created.json()["secret"]
        again = await keyed_api.post("/v1/endpoints", json={"url": f"{url}?other=query"})
        assert (created.status_code, again.status_code) == (201, 200)
        assert again.json() == {**created.json(), "secret": None}
        body, headers = await signatures(url)
        assert Verifier(first).verify(body, headers)["type"] == "refinement.completed"
        where = f"/v1/endpoints/{created.json()['id']}"
        second = (await keyed_api.post(f"{where}/rotate")).json()["secret"]
        assert second != first
        body, headers = await signatures(url)
        for secret in (first, second):
            assert Verifier(secret).verify(body, headers)
        third = (await keyed_api.post(f"{where}/rotate", json={"overlap_s": 0})).json()["secret"]
        body, headers = await signatures(url)
        assert len(headers["webhook-signature"].split()) == 1
        assert Verifier(third).verify(body, headers)
        assert (await keyed_api.delete(where)).status_code == 204
        problem(await keyed_api.get(where), 404, "not_found")
        once_more = await keyed_api.post("/v1/endpoints", json={"url": url})
        assert once_more.json()["secret"] == third  # a rotated secret does not come back


async def test_a_rotation_sent_again_after_another_change_takes_effect_once(
    keyed_api: httpx.AsyncClient,
) -> None:
    created = await keyed_api.post("/v1/endpoints", json={"url": "https://hooks.example.com/"})
    where = f"/v1/endpoints/{created.json()['id']}"
    key = {"Idempotency-Key": "rotation-1"}
    rotated = await keyed_api.post(f"{where}/rotate", headers=key)
    await keyed_api.post(f"{where}/resume")
    assert (await keyed_api.post(f"{where}/rotate", headers=key)).json() == rotated.json()


async def test_the_secret_in_a_request_signs_alone(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore, store: Store, keyed: Settings
) -> None:
    async with endpoint(answering_with("x" * 300_000)) as (url, asked, client):
        hook = {"url": url, "secret": SECRET, "headers": {"Authorization": "Bearer 1"}}
        refinement_id = await ended(keyed_api, keyed_worker, webhook=hook)
        (taken,) = await store.webhooks.lease_due(1, 60)
        await WebhookSender(store, store.webhooks, client).send(taken)
        (request,) = asked
        said = Verifier(SECRET).verify(await request.text(), dict(request.headers))
    assert said["data"]["id"] == refinement_id
    assert request.headers["Authorization"] == "Bearer 1"
    assert (await log(keyed_api, refinement_id))[0]["status"] == "delivered"  # a 2xx, too long


async def test_a_webhook_at_an_internal_address_is_not_sent_and_says_so(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore, store: Store, keyed: Settings
) -> None:
    async with endpoint(answering_with("", 204)) as (url, asked, _):
        refinement_id = await ended(keyed_api, keyed_worker, webhook={"url": url})
        (taken,) = await store.webhooks.lease_due(1, 60)
        async with open_signing(keyed) as signing, open_endpoints(signing.of) as client:
            await WebhookSender(store, store.webhooks, client).send(taken)
        assert asked == []
    (delivery,) = await log(keyed_api, refinement_id)
    (attempt,) = delivery["attempts"]
    assert (delivery["status"], attempt["status"]) == ("pending", None)
    assert "no public address" in attempt["detail"]


async def test_the_secret_of_an_endpoint_signs_calls_of_validators_too_each_tenant_its_own(
    keyed_api: httpx.AsyncClient, keyed: Settings
) -> None:
    allowed = keyed.model_copy(update={"outbound_allow": THIS_MACHINE})
    async with (
        endpoint(answering_with({"passed": True})) as (url, asked, _),
        open_server_resources(allowed) as resources,
    ):
        secret = (await keyed_api.post("/v1/endpoints", json={"url": url})).json()["secret"]
        assert resources.endpoints is not None
        for tenant in ("default", "another"):
            await resources.endpoints.post(Endpoint(url=url), b"{}", "key", tenant)
        own, foreign = [dict(request.headers) for request in asked]
    assert Verifier(secret).verify("{}", own) == {}
    with pytest.raises(WebhookVerificationError):
        Verifier(secret).verify("{}", foreign)


async def test_readiness_warns_of_webhooks_that_nothing_sends(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore, redis: Redis
) -> None:
    async def warnings() -> str:
        return str((await keyed_api.get("/readyz")).json()["warnings"])

    await ended(keyed_api, keyed_worker, webhook=HOOK)
    assert "overdue" not in await warnings()
    (member,) = cast("list[bytes]", await redis.zrange(redis_keys.OUTBOX, 0, -1))
    await redis.zincrby(redis_keys.OUTBOX, -62_000, member)
    assert "webhooks overdue: 1" in await warnings()


async def test_a_continuation_keeps_the_webhook_unless_it_is_disabled(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore
) -> None:
    parent = await ended(keyed_api, keyed_worker, webhook=HOOK)
    hooks = []
    for body in ({}, {"webhook": None}):
        child = await keyed_api.post(f"/v1/refinements/{parent}/continue", json=body)
        loaded = await keyed_worker.load(child.json()["id"])
        hooks.append(loaded.submitted.request.webhook)
    kept, disabled = hooks
    assert kept is not None
    assert kept.secrets() == {"/secret": SECRET}
    assert disabled is None


async def test_without_a_secret_key_webhooks_are_refused(api: httpx.AsyncClient) -> None:
    request = {"draft": DRAFT, "webhook": HOOK}
    refused = problem(await api.post("/v1/refinements", json=request), 422, "invalid_request")
    assert refused["errors"][0]["pointer"] == "/webhook"
    assert "HONE_SECRET_KEY" in refused["detail"]
    problem(await api.post("/v1/endpoints", json={"url": URL}), 422, "invalid_request")


@pytest.mark.parametrize(
    ("failures", "retry_after_s", "wait_s"),
    [(1, None, 5), (10, None, 28_800), (11, None, None), (1, 60, 60), (1, 1e9, 21_600)],
)
def test_attempts_are_spread_over_a_day(
    failures: int, retry_after_s: float | None, wait_s: float | None
) -> None:
    assert Pace(random=lambda: 0.5).wait_s(failures, retry_after_s) == wait_s
    assert 70_000 < sum(Pace().schedule_s) < 86_400


async def test_nothing_waits_to_send_what_no_key_can_sign(settings: Settings) -> None:
    with pytest.raises(InvalidSettings, match="HONE_SECRET_KEY is not set"):
        await send_webhooks(settings.model_copy(update={"secret_key": None}))
