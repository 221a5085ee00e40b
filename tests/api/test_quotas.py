"""What a tenant may use at most."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from redis.asyncio import Redis

from app.access.callers import Metering
from app.access.keyring import Keyring
from app.access.tenants import Tenants
from app.contract.access import OPERATOR, KeyRequest, Quotas, Scope
from app.contract.errors import QuotaExceeded
from app.settings import Settings
from app.store import Store, WorkerStore
from app.store.redis import keys
from tests.api.api_client import REQUEST, ManualWorker, ended, problem, submitted, watching
from tests.api.conftest import requiring_keys
from tests.waiting import TIMEOUT_S

JSON = {"Accept": "application/json"}
OF_JSON = {"Content-Type": "application/json"}
LEFT = re.compile(r'"requests";r=(\d+);t=(\d+)')


@pytest.fixture(scope="module")
def settings(settings: Settings) -> Settings:
    return requiring_keys(settings)


@pytest.fixture
async def api(guarded: str, settings: Settings, store: Store) -> AsyncIterator[httpx.AsyncClient]:
    """A client with a key of a tenant that no test had before."""
    request = KeyRequest(tenant=f"t{asyncio.get_running_loop().time()}".replace(".", "-"))
    issued = await Keyring(store.access, settings).create(OPERATOR, request)
    headers = {"Authorization": f"Bearer {issued.key}", "X-Tenant": issued.tenant}
    async with httpx.AsyncClient(base_url=guarded, headers=headers, timeout=TIMEOUT_S) as client:
        yield client


async def limit(api: httpx.AsyncClient, store: Store, **quotas: object) -> None:
    """Set the quotas of the client's tenant before its key is used for the first time."""
    read = Quotas.model_validate(quotas)
    await Tenants(store.access).set_quotas(OPERATOR, api.headers["X-Tenant"], read)


async def test_requests_a_minute_are_counted_and_one_too_many_is_refused(
    api: httpx.AsyncClient, settings: Settings, store: Store
) -> None:
    await limit(api, store, requests_per_minute=3)
    answers = [await api.get("/v1/models") for _ in range(8)]  # a new minute may begin once
    for response in answers[:3]:
        assert response.headers["ratelimit-policy"] == '"requests";q=3;w=60'
        left = LEFT.fullmatch(response.headers["ratelimit"])
        assert left
        assert int(left[1]) < 3
        assert 1 <= int(left[2]) <= 60
    refused = next(it for it in answers if it.status_code == 429)
    problem(refused, 429, "rate_limited")
    assert refused.headers["ratelimit"].startswith('"requests";r=0;t=')
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    other = await Keyring(store.access, settings).create(OPERATOR, KeyRequest())
    allowed = await api.get("/v1/models", headers={"Authorization": f"Bearer {other.key}"})
    assert allowed.status_code == 200
    assert "ratelimit" not in allowed.headers


async def test_every_answer_to_a_known_caller_says_what_is_left_of_the_quota(
    api: httpx.AsyncClient, store: Store, worker: WorkerStore
) -> None:
    await limit(api, store, requests_per_minute=100, watchers=1)
    path = f"/v1/refinements/{await ended(api, worker)}"
    answers = [
        await api.get("/v1/refinements?limit=1"),
        await api.get(path, headers={"If-None-Match": "*"}),
        await api.get(f"{path}/events"),
        await api.get(f"{path}/events?after=8"),
        await api.get("/v1/refinements/ref_none"),
        await api.get("/v1/nothing"),
        await api.put("/v1/refinements"),
        await api.post("/v1/refinements", json={}),
        await api.post("/v1/keys", json={}),
        await api.post("/v1/refinements", content=b"x" * 9_000_000, headers=OF_JSON),
        await api.head(path),
    ]
    statuses = [200, 304, 200, 204, 404, 404, 405, 422, 403, 413, 200]
    assert [it.status_code for it in answers] == statuses
    left = [LEFT.fullmatch(it.headers.get("ratelimit", "")) for it in answers]
    assert all(left)
    async with watching(api, await submitted(api)) as events:
        await anext(events)
        refused = await api.get(f"{path}/events")
    problem(refused, 429, "quota_exceeded")
    assert LEFT.fullmatch(refused.headers["ratelimit"])


async def test_refinements_that_are_queued_or_in_flight_are_bounded(
    api: httpx.AsyncClient, store: Store, worker: WorkerStore
) -> None:
    await limit(api, store, queued=1, in_flight=2)
    first = await submitted(api, metadata={"n": "1"})
    again = {"Idempotency-Key": "k"}
    refused = await api.post("/v1/refinements", json=REQUEST, headers=again)
    assert "1 refinements queued" in problem(refused, 429, "quota_exceeded")["detail"]
    assert int(refused.headers["retry-after"]) > 0
    claimed = await ManualWorker.claim(worker, first)
    taken = await api.post("/v1/refinements", json=REQUEST, headers=again)
    await ManualWorker.claim(worker, taken.json()["id"])
    refused = await api.post("/v1/refinements", json=REQUEST)
    assert "2 refinements in flight" in problem(refused, 429, "quota_exceeded")["detail"]
    replayed = await api.post("/v1/refinements", json=REQUEST, headers=again)
    assert replayed.json()["id"] == taken.json()["id"]
    await claimed.judge(0, "A draft.", 0.5)
    await claimed.complete()
    assert (await api.post("/v1/refinements", json=REQUEST)).status_code == 202
    (shown,) = await Tenants(store.access).all(api.headers["X-Tenant"])
    assert (shown.use.queued, shown.use.in_flight) == (1, 2)


async def test_the_memory_of_refinements_is_bounded_and_freed_by_erasing(
    api: httpx.AsyncClient, store: Store, worker: WorkerStore
) -> None:
    tenants, name = Tenants(store.access), api.headers["X-Tenant"]
    await limit(api, store, bytes_stored=20_000)
    first = await submitted(api)
    created = (await tenants.get(OPERATOR, name)).use.bytes_stored
    manual = await ManualWorker.claim(worker, first)
    await manual.judge(0, "word " * 10_000, 0.5)
    await manual.complete()
    ended = (await tenants.get(OPERATOR, name)).use.bytes_stored
    assert 500 < created < 20_000
    assert ended > 50_000
    refused = await api.post("/v1/refinements", json=REQUEST)
    assert "20000 bytes" in problem(refused, 429, "quota_exceeded")["detail"]
    await api.delete(f"/v1/refinements/{first}")
    assert (await tenants.get(OPERATOR, name)).use.bytes_stored == 0
    second = await submitted(api)
    await api.post(f"/v1/refinements/{second}/cancel")
    assert 0 < (await tenants.get(OPERATOR, name)).use.bytes_stored < 20_000


async def test_a_batch_leaves_half_of_the_quotas_to_others_and_goes_on_as_there_is_room(
    api: httpx.AsyncClient, store: Store, worker: WorkerStore
) -> None:
    await limit(api, store, queued=4, in_flight=6)
    batch = await batch_of(api, 9)
    assert (await begun(api, worker, batch), batch["counts"]["pending"]) == (2, 9)
    ids = [await submitted(api) for _ in range(2)]
    problem(await api.post("/v1/refinements", json=REQUEST), 429, "quota_exceeded")
    assert await begun(api, worker, batch) == 2
    for it in ids:
        await ManualWorker.claim(worker, it)
    assert await begun(api, worker, batch) == 2  # 4 are in flight, more than half
    for it in ids:
        await api.delete(f"/v1/refinements/{it}")
    assert await begun(api, worker, batch) == 2
    for it in (await api.get(batch["links"]["refinements"])).json()["data"]:
        await ManualWorker.claim(worker, it["id"])
    assert await begun(api, worker, batch) == 3


@pytest.mark.parametrize("quota", ["tokens_per_day", "cost_usd_per_day"])
async def test_a_batch_waits_visibly_when_a_quota_of_the_day_is_used_up(
    api: httpx.AsyncClient, store: Store, worker: WorkerStore, redis_url: str, quota: str
) -> None:
    await limit(api, store, **{quota: 10})
    async with Redis.from_url(redis_url, protocol=2) as redis:
        seconds, _ = await redis.time()
        spent = keys.spent_on(api.headers["X-Tenant"], seconds // 86_400)
        await redis.hset(spent, mapping={"tokens": 10, "cost_usd": 10})
        batch = await batch_of(api, 1)
        assert await begun(api, worker, batch) == 0
        waiting = (await api.get(batch["links"]["self"])).json()["waiting"]
        assert (waiting["reason"], quota in waiting["detail"]) == ("quota", True)
        await redis.delete(spent)
        await redis.zadd(keys.BATCHES, {batch["id"]: 0})
        assert await begun(api, worker, batch) == 1
        assert (await api.get(batch["links"]["self"])).json()["waiting"] is None


async def test_what_waits_in_batches_counts_as_stored(
    api: httpx.AsyncClient, store: Store, worker: WorkerStore
) -> None:
    await limit(api, store, bytes_stored=300_000)
    tenants, name = Tenants(store.access), api.headers["X-Tenant"]
    first = await batch_of(api, 20, draft="word " * 1_000)
    stored = (await tenants.get(OPERATOR, name)).use.bytes_stored
    assert 100_000 < stored < 200_000
    assert await begun(api, worker, first) == 20
    assert stored < (await tenants.get(OPERATOR, name)).use.bytes_stored < 300_000
    await batch_of(api, 50, draft="word " * 1_000)
    refused = await sent(api, 1)
    assert "300000 bytes" in problem(refused, 429, "quota_exceeded")["detail"]
    for batch in (await api.get("/v1/batches")).json()["data"]:
        await api.delete(batch["links"]["self"])
    assert (await tenants.get(OPERATOR, name)).use.bytes_stored == 0


async def sent(api: httpx.AsyncClient, count: int, **fields: str) -> httpx.Response:
    lines = [{"custom_id": f"{it}", "request": REQUEST | fields} for it in range(count)]
    return await api.post(
        "/v1/batches",
        content="\n".join(map(json.dumps, lines)),
        headers={"Content-Type": "application/jsonl"},
    )


async def batch_of(api: httpx.AsyncClient, count: int, **fields: str) -> dict[str, Any]:
    """Submit a batch of so many requests."""
    answer = await sent(api, count, **fields)
    assert answer.status_code == 202, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def begun(api: httpx.AsyncClient, worker: WorkerStore, batch: dict[str, Any]) -> int:
    """Let a worker begin what there is room for; return how many refinements there are."""
    await asyncio.sleep(0.21)  # until the batch is due again
    await worker.feed_batches()
    return len((await api.get(f"{batch['links']['refinements']}&limit=100")).json()["data"])


async def test_open_event_streams_are_bounded(api: httpx.AsyncClient, store: Store) -> None:
    await limit(api, store, watchers=1)
    refinement_id = await submitted(api)
    async with watching(api, refinement_id) as events:
        await anext(events)
        refused = await api.get(f"/v1/refinements/{refinement_id}/events")
        problem(refused, 429, "quota_exceeded")
        (shown,) = await Tenants(store.access).all(api.headers["X-Tenant"])
        assert shown.use.watchers == 1
    await api.post(f"/v1/refinements/{refinement_id}/cancel")
    async with asyncio.timeout(TIMEOUT_S):
        while (await api.get(f"/v1/refinements/{refinement_id}/events")).status_code != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_event_streams_are_bounded_without_a_quota(store: Store) -> None:
    async with Metering(store.access, most_streams=1) as metering:
        async with metering.stream("acme", None):
            with pytest.raises(QuotaExceeded, match="quota `watchers`"):
                async with metering.stream("acme", None):
                    pass
            async with metering.stream("another", None):
                pass
        async with metering.stream("acme", None):
            pass


async def test_a_tenant_uses_the_models_that_it_may(api: httpx.AsyncClient, store: Store) -> None:
    await limit(api, store, models=("openai:*", "anthropic:x"))
    refused = problem(await api.post("/v1/refinements", json=REQUEST), 422, "invalid_request")
    assert "may not use offline:editor" in refused["detail"]
    assert Quotas(models=("a:*", "b:x")).allows("a:y")
    assert Quotas(models=("a:*", "b:x")).allows("b:x")
    assert not Quotas(models=("a:*", "b:x")).allows("b:y")


async def test_quotas_are_set_over_http_by_an_administrator_of_the_operator_only(
    api: httpx.AsyncClient, settings: Settings, store: Store
) -> None:
    keyring, tenant = Keyring(store.access, settings), api.headers["X-Tenant"]
    admins = KeyRequest(scopes=(Scope.ADMIN,))
    for of, status in ((OPERATOR, 200), (tenant, 403)):
        headers = {"Authorization": f"Bearer {(await keyring.create(of, admins)).key}"}
        path, body = f"/v1/tenants/{tenant}/quotas", {"queued": 5}
        response = await api.put(path, json=body, headers=headers)
        assert response.status_code == status
        shown = (await api.get(f"/v1/tenants/{tenant}", headers=headers)).json()
        assert shown["quotas"]["queued"] == 5
        listed = (await api.get("/v1/tenants", headers=headers)).json()["data"]
        assert [it["name"] for it in listed] == sorted({of, tenant})
