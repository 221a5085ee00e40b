"""A proposal ends with the texts that went into it, and its tries outlive it."""

import pytest
from redis.asyncio import Redis

from app.contract.batches import BatchOptions
from app.contract.errors import RefinementNotFound
from app.store import Store, WorkerStore
from app.store.redis import keys
from tests.store.store_harness import TENANT, be_up, new, submit

PROPOSAL = "prop_01JD3Y3V3G5ZC1Q6E0M8W2R9TB"


async def begun(store: Store, text: str) -> str:
    """Begin a proposal from a text; return the refinement that was made for it."""
    work = await submit(store)
    assert await store.proposals.begin(TENANT, PROPOSAL, {"texts": [text], "work": work})
    return work


async def test_a_proposal_is_erased_with_a_text_and_with_the_batch_that_has_the_text(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    await be_up(redis)
    upload = await store.batches.upload(TENANT)
    await upload.add(1, "a", new())
    batch_id = await upload.commit(BatchOptions(), "body", None)
    await worker.feed_batches()
    (in_batch,) = (await store.page(TENANT, batch=batch_id)).data
    work = await begun(store, in_batch.id)
    await store.erase(TENANT, await submit(store))
    assert await store.proposals.facts(TENANT, PROPOSAL)
    await store.erase_batch(TENANT, batch_id)
    assert await store.proposals.all(TENANT) == {}
    with pytest.raises(RefinementNotFound):
        await store.snapshot(TENANT, work)


async def test_a_step_that_ends_after_its_proposal_was_erased_leaves_no_fact(
    store: Store, redis: Redis
) -> None:
    text = await submit(store)
    await begun(store, text)
    await store.erase(TENANT, text)
    await store.proposals.note(TENANT, PROPOSAL, "playing", {"work": "batch_1"})
    assert await redis.exists(keys.proposal(TENANT, PROPOSAL)) == 0


async def test_a_text_that_is_erased_while_a_proposal_begins_is_missed(store: Store) -> None:
    text = await submit(store)
    await store.erase(TENANT, text)
    assert not await store.proposals.begin(TENANT, PROPOSAL, {"texts": [text], "work": text})


async def test_a_proposal_counts_once_among_the_tries_for_its_setting_and_also_when_it_is_gone(
    store: Store,
) -> None:
    text = await submit(store)
    await begun(store, text)
    for _ in range(2):
        assert await store.proposals.tried(TENANT, "mail", b"{}", PROPOSAL) == 0
    await store.erase(TENANT, text)
    assert await store.proposals.tried(TENANT, "mail", b"{}", "prop_2") == 1
    assert await store.proposals.tried(TENANT, "mail", b"other", "prop_3") == 0
    assert await store.proposals.tried(TENANT, "letter", b"{}", "prop_4") == 0
