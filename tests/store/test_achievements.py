"""What a drawn model has achieved is counted once, soon after the refinement has ended."""

from dataclasses import replace

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from app.contract.events import Draw
from app.contract.status import Status, StopReason
from app.store import Fenced, Fields, Journal, Store, WorkerStore
from app.store.redis import keys
from app.store.statistics import Achieved
from tests.store.store_harness import (
    BROKEN,
    CANCELED,
    COMPLETED,
    FAILED,
    SUCCEEDED,
    TENANT,
    FlakyCommitter,
    HeldClaim,
    claim,
    count_ended,
    expire_lease,
    iteration,
    new,
)
from tests.store.store_harness import JUDGED as JUDGED_BEFORE

MODEL = "openai:a b"
NOTHING = Achieved()
SEATS = {"generator": [MODEL], "generator/stages/text": [MODEL], "critic": ["openai:judge"]}
REACHED = {"generator": (0.4, 0.5), "generator/stages/text": (0.1, None)}
ONCE = Achieved(ended=1, passed=1, gain=0.4, squares=0.4 * 0.4, priced=1, cost_usd=0.5)
KIND = "f00d"
JUDGED = replace(JUDGED_BEFORE, achieved=REACHED)
UNKNOWN_COST = replace(JUDGED, achieved={"generator": (0.4, None)})
FAR_OFF = replace(JUDGED, best_passed=False)
FAR_OFF_AND_BROKEN = replace(FAR_OFF, stop_reason=BROKEN.stop_reason, error=BROKEN.error)


async def drawn(store: Store, worker: WorkerStore, tenant: str = TENANT) -> HeldClaim:
    """Submit with a model that was drawn, and claim it."""
    wanted = new(tenant)
    draws = {seat: Draw(candidates=(), picked=it, kind=KIND) for seat, (it,) in SEATS.items()}
    changes = {"draw": draws.pop("generator"), "draws": draws}
    wanted = replace(wanted, queued=wanted.queued.model_copy(update=changes))
    return await claim(worker, (await store.create(wanted, None)).id)


async def achieved(store: Store, worker: WorkerStore, tenant: str = TENANT) -> Achieved:
    await count_ended(worker)
    return (await store.statistics.achieved(tenant, KIND, SEATS))["generator"][MODEL]


async def test_what_succeeded_counts_with_what_it_cost(store: Store, worker: WorkerStore) -> None:
    for judged in (JUDGED, FAR_OFF, UNKNOWN_COST):
        held = await drawn(store, worker)
        await held.journal.append([iteration(held)], judged)
        await held.journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED)
    found = await achieved(store, worker)
    assert (found.ended, found.passed, found.priced, found.cost_usd) == (3, 2, 2, 1.0)
    assert (found.gain, found.squares) == pytest.approx((1.2, 0.48))
    assert found.mean_cost_usd == 0.5
    assert found.mean_gain == pytest.approx(0.4)


async def test_it_is_listed_by_kind_and_seat(store: Store, worker: WorkerStore) -> None:
    passed, failed = await drawn(store, worker), await drawn(store, worker)
    await passed.journal.append([iteration(passed), COMPLETED], JUDGED, to=Status.SUCCEEDED)
    await failed.journal.append([FAILED], BROKEN, to=Status.FAILED)
    await count_ended(worker)
    listed = await store.statistics.models(TENANT, 2)
    assert [(it.kind, it.seat, it.model) for it in listed] == [
        (KIND, "critic", "openai:judge"),
        (KIND, "generator", MODEL),
    ]
    of_generator = listed[1]
    assert (of_generator.ended, of_generator.passed) == (2, 1)
    assert (of_generator.mean_gain, of_generator.mean_cost_usd) == (0.2, 0.5)
    await store.retry(TENANT, failed.id)
    assert [it.ended for it in await store.statistics.models(TENANT, 2)] == [1, 1]


async def test_each_seat_and_kind_has_its_own_sums(store: Store, worker: WorkerStore) -> None:
    held = await drawn(store, worker)
    await held.journal.append([iteration(held), COMPLETED], JUDGED, to=Status.SUCCEEDED)
    await count_ended(worker)
    found = await store.statistics.achieved(TENANT, KIND, SEATS)
    of_stage, of_critic = found["generator/stages/text"][MODEL], found["critic"]["openai:judge"]
    assert (of_stage.ended, of_stage.gain, of_stage.priced) == (1, 0.1, 0)
    assert (of_critic.ended, of_critic.gain) == (1, 0)
    assert (await store.statistics.achieved(TENANT, "cafe", SEATS))["generator"] == {MODEL: NOTHING}


async def test_what_was_achieved_long_ago_is_forgotten(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await drawn(store, worker)
    await held.journal.append([iteration(held), COMPLETED], JUDGED, to=Status.SUCCEEDED)
    await count_ended(worker)
    (key,) = [it async for it in redis.scan_iter(keys.STATISTICS + ":models:*")]
    assert 0 < await redis.pttl(key) <= 90 * 86_400_000
    name, _, day = key.decode().rpartition(":")
    await redis.rename(key, f"{name}:{int(day) - 29}")
    assert await achieved(store, worker) == ONCE
    await redis.rename(f"{name}:{int(day) - 29}", f"{name}:{int(day) - 31}")
    assert await achieved(store, worker) == NOTHING


async def test_one_that_is_not_to_be_learnt_from_does_not_count(
    store: Store, worker: WorkerStore
) -> None:
    wanted = new()
    draw = Draw(candidates=(), picked=MODEL, kind=KIND)
    wanted = replace(
        wanted,
        queued=wanted.queued.model_copy(update={"draw": draw}),
        request=wanted.request.model_copy(update={"learn": False}),
    )
    held = await claim(worker, (await store.create(wanted, None)).id)
    await held.journal.append([iteration(held), COMPLETED], JUDGED, to=Status.SUCCEEDED)
    assert await achieved(store, worker) == NOTHING


async def test_all_of_it_may_stand_in_the_last_append(store: Store, worker: WorkerStore) -> None:
    held = await drawn(store, worker)
    last = replace(JUDGED, stop_reason=StopReason.THRESHOLD_MET)
    await held.journal.append([iteration(held), COMPLETED], last, to=Status.SUCCEEDED)
    assert await achieved(store, worker) == ONCE


async def test_a_failure_counts_as_not_passed_and_says_nothing_about_the_price(
    store: Store, worker: WorkerStore
) -> None:
    held = await drawn(store, worker)
    await held.journal.append([FAILED], BROKEN, to=Status.FAILED)
    found = await achieved(store, worker)
    assert (found, found.mean_cost_usd) == (Achieved(ended=1), None)


async def test_what_was_canceled_or_erased_does_not_count(
    store: Store, worker: WorkerStore
) -> None:
    canceled, overruled, erased = [await drawn(store, worker) for _ in range(3)]
    for held in (canceled, overruled, erased):
        await held.journal.append([iteration(held)], JUDGED)
    for held in (canceled, overruled):
        await store.cancel(TENANT, held.id)
    await store.erase(TENANT, erased.id)
    await canceled.journal.append([CANCELED], Fields(), to=Status.CANCELED)
    await overruled.journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED)
    with pytest.raises(Fenced):
        await erased.journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED)
    assert await achieved(store, worker) == NOTHING


async def test_a_model_that_was_named_and_not_drawn_does_not_count(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await claim(worker, (await store.create(new(), None)).id)
    await held.journal.append([iteration(held), COMPLETED], JUDGED, to=Status.SUCCEEDED)
    await count_ended(worker)
    assert await store.statistics.models(TENANT, 10) == ()


async def test_a_tenant_sees_its_own_alone(store: Store, worker: WorkerStore) -> None:
    held = await drawn(store, worker, "theirs")
    await held.journal.append([iteration(held), COMPLETED], JUDGED, to=Status.SUCCEEDED)
    assert (await achieved(store, worker, "theirs"), await achieved(store, worker)) == (
        ONCE,
        NOTHING,
    )


@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_an_ending_that_is_sent_again_counts_once(
    store: Store, worker: WorkerStore, flaky: FlakyCommitter, lost: str
) -> None:
    held = await drawn(store, worker)
    journal = Journal(held.claimed, flaky)
    await journal.append([iteration(held)], JUDGED)
    flaky.lose = [lost, lost]
    for _ in range(2):
        with pytest.raises(RedisConnectionError):
            await journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED)
    await journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED)
    assert await achieved(store, worker) == ONCE


async def test_a_retried_one_counts_once_and_as_it_ended_last(
    store: Store, worker: WorkerStore
) -> None:
    held = await drawn(store, worker)
    await held.journal.append([iteration(held), FAILED], FAR_OFF_AND_BROKEN, to=Status.FAILED)
    assert await achieved(store, worker) == replace(ONCE, passed=0)
    await store.retry(TENANT, held.id)
    assert await achieved(store, worker) == NOTHING
    again = await claim(worker, held.id, job=2)
    await again.journal.append([iteration(held), COMPLETED], JUDGED, to=Status.SUCCEEDED)
    assert await achieved(store, worker) == ONCE


async def test_a_poisoned_one_counts_as_failed_until_it_is_retried(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await drawn(store, worker)
    await redis.hset(keys.SUMMARY + held.id, "attempt", 3)
    assert await worker.blame(held.id, "worker-1", "it died")
    assert await achieved(store, worker) == Achieved(ended=1)
    await store.retry(TENANT, held.id)
    assert await achieved(store, worker) == NOTHING


async def test_a_worker_that_was_replaced_counts_nothing(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    slow = await drawn(store, worker)
    await slow.journal.append([iteration(slow)], JUDGED)
    await expire_lease(redis, slow.id)
    quick = await claim(worker, slow.id, job=2)
    await quick.journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED)
    with pytest.raises(Fenced):
        await slow.journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED)
    assert await achieved(store, worker) == ONCE
