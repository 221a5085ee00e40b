"""The nonce in the prompts of a refinement: one per tenant and day, kept in its record."""

from dataclasses import replace

from redis.asyncio import Redis

from app.store import Store, WorkerStore, keys
from tests.store.store_harness import new


async def nonce_of(store: Store, worker: WorkerStore, tenant: str, proposed: str) -> str | None:
    created = await store.create(replace(new(), tenant=tenant, prompt_nonce=proposed), None)
    return (await worker.load(created.id)).submitted.prompt_nonce


async def test_the_refinements_of_a_tenant_share_a_nonce_for_a_day(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    assert await nonce_of(store, worker, "one", "111111") == "111111"
    assert await nonce_of(store, worker, "one", "222222") == "111111"
    assert await nonce_of(store, worker, "other", "333333") == "333333"
    (first,) = await redis.keys(f"{keys.PROMPT_NONCE}one:*")
    assert 0 < await redis.pttl(first) <= 86_400_000
    await redis.delete(first)  # the day is over
    assert await nonce_of(store, worker, "one", "444444") == "444444"


async def test_a_record_of_an_earlier_release_has_no_nonce(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    created = await store.create(new(), None)
    await redis.hdel(keys.REQUEST + created.id, "prompt_nonce")
    assert (await worker.load(created.id)).submitted.prompt_nonce is None


def test_nonces_are_six_random_digits() -> None:
    nonces = {new().prompt_nonce for _ in range(50)}
    assert len(nonces) > 40
    assert all(len(it) == 6 and it.isdecimal() for it in nonces)
