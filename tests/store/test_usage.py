"""What a refinement has consumed is counted once, soon after its end and before it goes."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import date, timedelta

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from app.contract.limits import LimitsChange
from app.contract.statistics import NO_USE, OTHER, ModelUse, UsageCell
from app.contract.status import Status
from app.store import Fields, Journal, Store, WorkerStore
from app.store.redis import keys
from app.store.redis.scripts import MOST_SUMS
from tests.store.store_harness import (
    BROKEN,
    CANCELED,
    COMPLETED,
    FAILED,
    JUDGED,
    SUCCEEDED,
    TENANT,
    FlakyCommitter,
    HeldClaim,
    be_up,
    claim,
    count_ended,
    expire_lease,
    expire_retention,
    expire_wait,
    iteration,
    new,
    park,
    pause,
    started,
    step,
    stored_sums,
)
from tests.waiting import today

GPT, CLAUDE = "openai:gpt-5-mini", "anthropic:claude sonnet"
USED = {GPT: ModelUse(2, 30, 20, 10, 500_000_000, 0), CLAUDE: ModelUse(1, 9, 8, 0, 0, 1)}
HAS_USED = replace(JUDGED, used=USED)
KEY = "key_3f8k2m9q7w1x"
A_DAY = timedelta(days=1)
ONE_ENDING = stored_sums(1, 0, 0, 0, 0, 0, 0)

Ending = Callable[[Store, WorkerStore, Redis, HeldClaim], Awaitable[object]]
Counted = dict[tuple[str, str, str], tuple[int, ModelUse]]


async def counted(store: Store, worker: WorkerStore, tenant: str = TENANT) -> Counted:
    """Return endings and uses by key, model and outcome."""
    await count_ended(worker)
    day = today()
    *_, days = await store.statistics.days(tenant, day - A_DAY, day + A_DAY, 1)
    found = await store.statistics.usage_of(days)
    assert {cell.strategy for cell, _, _ in found} <= {"iterative"}
    return {(cell.key, cell.model, cell.outcome): (n, use) for cell, n, use in found}


def all_of(outcome: str, key: str = "") -> Counted:
    """Return what one ending counts that has used all of `USED`."""
    of_models: Counted = {(key, model, outcome): (1, use) for model, use in USED.items()}
    return {(key, "", outcome): (1, NO_USE)} | of_models


async def judged(store: Store, worker: WorkerStore, fields: Fields = HAS_USED) -> HeldClaim:
    held = await started(store, worker)
    await held.journal.append([step(), iteration(held)], fields)
    return held


async def test_an_ending_counts_what_was_consumed_by_key_model_and_outcome(
    store: Store, worker: WorkerStore
) -> None:
    created = await store.create(replace(new(), api_key=KEY), None)
    held = await claim(worker, created.id)
    assert await counted(store, worker) == {}
    await held.journal.append([iteration(held), COMPLETED], HAS_USED, to=Status.SUCCEEDED)
    assert await counted(store, worker) == all_of("passed", KEY)


async def test_what_missed_its_threshold_has_not_passed(store: Store, worker: WorkerStore) -> None:
    held = await judged(store, worker, replace(HAS_USED, best_passed=False))
    await held.journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED)
    assert await counted(store, worker) == all_of("best_effort")


@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_an_ending_that_is_sent_again_counts_once(
    store: Store, worker: WorkerStore, flaky: FlakyCommitter, lost: str
) -> None:
    journal = Journal((await started(store, worker)).claimed, flaky)
    flaky.lose = [lost, lost]
    failing = replace(BROKEN, used=USED)
    for _ in range(2):
        with pytest.raises(RedisConnectionError):
            await journal.append([FAILED], failing, to=Status.FAILED)
    await journal.append([FAILED], failing, to=Status.FAILED)
    assert await counted(store, worker) == all_of("failed")


async def _canceled(store: Store, _w: WorkerStore, _r: Redis, held: HeldClaim) -> None:
    await store.cancel(TENANT, held.id)
    await held.journal.append([CANCELED], to=Status.CANCELED)


async def _overruled(store: Store, _w: WorkerStore, _r: Redis, held: HeldClaim) -> None:
    await store.cancel(TENANT, held.id)
    await held.journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED)


async def _canceled_while_paused(store: Store, _w: WorkerStore, _r: Redis, held: HeldClaim) -> None:
    await pause(held, alone=True)
    await store.cancel(TENANT, held.id)


async def _canceled_while_parked(store: Store, _w: WorkerStore, _r: Redis, held: HeldClaim) -> None:
    await park(held)
    await store.cancel(TENANT, held.id)


async def _canceled_after_its_worker_died(
    store: Store, worker: WorkerStore, redis: Redis, held: HeldClaim
) -> None:
    await store.cancel(TENANT, held.id)
    await expire_lease(redis, held.id)
    await worker.recover(include_queued=False)


async def _poisoned(_s: Store, worker: WorkerStore, redis: Redis, held: HeldClaim) -> None:
    await redis.hset(keys.SUMMARY + held.id, "attempt", 3)
    assert await worker.blame(held.id, "worker-1", "it died")


async def _erased(store: Store, _w: WorkerStore, _r: Redis, held: HeldClaim) -> None:
    await store.erase(TENANT, held.id)


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (_canceled, "canceled"),
        (_overruled, "canceled"),
        (_canceled_while_paused, "canceled"),
        (_canceled_while_parked, "canceled"),
        (_canceled_after_its_worker_died, "canceled"),
        (_poisoned, "failed"),
        (_erased, "erased"),
    ],
)
async def test_it_is_counted_whoever_ends_it(
    store: Store, worker: WorkerStore, redis: Redis, end: Ending, outcome: str
) -> None:
    await end(store, worker, redis, await judged(store, worker))
    assert await counted(store, worker) == all_of(outcome)


async def test_what_never_began_counts_and_costs_nothing(store: Store, worker: WorkerStore) -> None:
    created = await store.create(new(), None)
    await store.cancel(TENANT, created.id)
    assert await counted(store, worker) == {("", "", "canceled"): (1, NO_USE)}


async def test_a_deadline_before_the_start_counts(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    created = await store.create(new(), None)
    await redis.hset(keys.SUMMARY + created.id, "parked", "[]")
    await expire_wait(redis, created.id)
    await worker.recover(include_queued=False)
    assert await counted(store, worker) == {("", "", "failed"): (1, NO_USE)}


async def test_a_retried_one_counts_again_with_what_it_has_consumed_since(
    store: Store, worker: WorkerStore
) -> None:
    held = await judged(store, worker)
    await held.journal.append([FAILED], BROKEN, to=Status.FAILED)
    await store.retry(TENANT, held.id, LimitsChange())
    again = await claim(worker, held.id, 2)
    more = USED | {GPT: ModelUse(3, 34, 25, 10, 500_000_007, 0)}
    await again.journal.append([COMPLETED], replace(SUCCEEDED, used=more), to=Status.SUCCEEDED)
    assert await counted(store, worker) == all_of("failed") | {
        ("", "", "passed"): (1, NO_USE),
        ("", GPT, "passed"): (1, ModelUse(1, 4, 5, 0, 7, 0)),
    }


async def test_a_report_says_before_which_time_endings_are_counted(
    store: Store, worker: WorkerStore
) -> None:
    held = await judged(store, worker)
    await held.journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED)
    ended_at = (await store.snapshot(TENANT, held.id)).ended_at
    assert ended_at is not None
    before = await store.statistics.usage(TENANT, None, None, [])
    assert (before.as_of, before.total.refinements) == (ended_at, 0)
    await count_ended(worker)
    after = await store.statistics.usage(TENANT, None, None, [])
    assert (after.as_of >= ended_at, after.total.refinements) == (True, 1)


async def test_it_stays_counted_when_the_refinement_goes(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    for erases in (False, True):
        held = await judged(store, worker)
        await held.journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED)
        if erases:
            await store.erase(TENANT, held.id)
        else:
            await expire_retention(redis, held.id)
            await worker.recover(include_queued=False)
    assert (await counted(store, worker))["", GPT, "passed"] == (
        2,
        ModelUse(4, 60, 40, 20, 10**9, 0),
    )


async def test_a_full_day_adds_further_models_and_keys_to_others(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    day, ones = keys.statistics("usage", TENANT, today()), stored_sums(1, 1, 1, 1, 0, 0, 0)
    await redis.hset(day, mapping={f"failed s k m{n}": ones for n in range(MOST_SUMS)})
    for api_key in ("key_1", "key_2"):
        created = await store.create(replace(new(), api_key=api_key), None)
        held = await claim(worker, created.id)
        await held.journal.append([iteration(held), COMPLETED], HAS_USED, to=Status.SUCCEEDED)
    await count_ended(worker)
    await redis.hdel(day, *(f"failed s k m{n}" for n in range(MOST_SUMS)))
    both = ModelUse(*(2 * sum(it) for it in zip(*USED.values(), strict=True)))
    assert await counted(store, worker) == {
        (OTHER, "", "passed"): (2, NO_USE),
        (OTHER, OTHER, "passed"): (4, both),
    }


async def test_large_sums_stay_exact(store: Store, worker: WorkerStore) -> None:
    large = {GPT: ModelUse(1, 10**12 + 1, 7, 0, 9 * 10**14 + 1, 0)}
    for _ in range(2):
        held = await judged(store, worker, replace(JUDGED, used=large))
        await held.journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED)
    use = (await counted(store, worker))["", GPT, "passed"][1]
    assert (use.input_tokens, use.nano_usd) == (2 * 10**12 + 2, 18 * 10**14 + 2)


async def test_usage_is_deleted_after_the_days_for_which_it_is_kept(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    epoch, until = date(1970, 1, 1), today()
    for age in (399, 400):
        day = until - timedelta(days=age)
        number = (day - epoch).days
        await redis.hset(keys.statistics("usage", TENANT, day), "passed iterative - ", ONE_ENDING)
        await redis.zadd(keys.STATISTICS, {f"{TENANT}:{number}": number})
    await be_up(redis)
    await worker.recover(include_queued=False)
    *_, days = await store.statistics.days(TENANT, epoch, until, 1)
    assert days == [(TENANT, until - timedelta(days=399))]
    assert len(await redis.keys(keys.STATISTICS + ":*")) == 1


async def test_the_usage_of_a_tenant_goes_with_the_tenant(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    day = today()
    for tenant in ("acme", "acme-2"):
        created = await store.create(new(tenant), None)
        await store.cancel(tenant, created.id)
    await count_ended(worker)
    await store.access.forget_tenant("acme")
    *_, days = await store.statistics.days(None, day, day, 1)
    assert [tenant for tenant, _ in days] == ["acme-2"]
    assert len(await redis.keys(keys.STATISTICS + "*")) == 2


def test_a_cell_of_usage_has_no_text_of_a_client() -> None:
    assert UsageCell._fields == ("day", "tenant", "key", "model", "strategy", "outcome")
