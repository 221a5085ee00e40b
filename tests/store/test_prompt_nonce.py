"""The nonce in the prompts of a refinement: its own, unless a provider caches how they begin."""

from dataclasses import replace

from redis.asyncio import Redis

from app.contract.requests import RefinementRequest
from app.store import Store, WorkerStore
from app.store.redis import keys
from app.store.state import CACHED_FROM
from tests.store.store_harness import new

LONG = "Refunds take 14 days. " * (CACHED_FROM // 20)
DOCUMENTS = [{"name": "policy.md", "text": LONG}]


async def nonce_of(
    store: Store, worker: WorkerStore, tenant: str, proposed: str, **fields: object
) -> str | None:
    request = RefinementRequest.model_validate({"task": "Explain.", **fields})
    submitted = replace(new(), tenant=tenant, request=request, prompt_nonce=proposed)
    created = await store.create(submitted, None)
    return (await worker.load(created.id)).submitted.prompt_nonce


async def test_a_nonce_that_became_known_is_that_of_no_other_refinement(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    for nonce in ("first", "second"):
        assert await nonce_of(store, worker, "one", nonce) == nonce
    assert await redis.keys(keys.PROMPT_NONCE + "*") == []


async def test_refinements_of_a_tenant_whose_long_beginning_a_provider_caches_share_one_for_a_day(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    async def of(proposed: str, tenant: str = "one", **fields: object) -> str | None:
        return await nonce_of(store, worker, tenant, proposed, **fields)

    assert await of("first", context=DOCUMENTS) == "first"
    assert await of("second", context=DOCUMENTS, task="Shorten.") == "first"
    assert await of("third", context=[{"name": "policy.md", "text": f"{LONG}!"}]) == "third"
    assert await of("fourth", tenant="other", context=DOCUMENTS) == "fourth"
    assert await of("fifth", task=LONG) == "fifth"
    assert await of("sixth", task=LONG, draft="Another one.") == "fifth"
    kept = await redis.keys(keys.PROMPT_NONCE + "one:*")
    assert len(kept) == 3
    assert 0 < await redis.pttl(kept[0]) <= 86_400_000
    await redis.delete(*kept)  # the day is over
    assert await of("seventh", context=DOCUMENTS) == "seventh"


def test_nonces_are_eight_random_letters() -> None:
    nonces = {new().prompt_nonce for _ in range(50)}
    assert len(nonces) == 50
    assert all(len(it) == 8 and it.isascii() and it.isalpha() and it.islower() for it in nonces)
