"""What a tenant may spend in a day: calls over it wait, visibly, and without a worker."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from app.contract.access import Quotas
from app.contract.errors import QuotaExceeded
from app.contract.status import Status
from app.queue import RefinementQueue
from app.settings import Settings
from app.store import DaySpending, ReportSpending, Spent, Store, open_spending, open_store
from tests.workers.refinement_harness import (
    TENANT,
    RefinementHarness,
    ScriptedAnswers,
    scores,
)
from workers.play.budget import DayQuotas
from workers.play.refinements import Refinements

QUOTA = f"quota:{TENANT}"
A_DAY_S = 86_400


@pytest.fixture
async def report(redis_url: str) -> AsyncIterator[ReportSpending]:
    async with open_spending(Settings(redis_url=redis_url), "first") as report:
        assert report
        yield report


@pytest.fixture
async def store(redis_url: str) -> AsyncIterator[Store]:
    settings = Settings(redis_url=redis_url, redis_timeout_s=60)
    async with open_store(settings, RefinementQueue(settings.queue)) as store:
        yield store


async def metered(
    harness: RefinementHarness, models: ScriptedAnswers, report: ReportSpending
) -> tuple[DayQuotas, Refinements]:
    quotas = DayQuotas(models, report)
    return quotas, Refinements(harness.worker_store, quotas, "first", models.outside)


async def test_a_refinement_waits_visibly_when_the_quota_of_the_day_is_reached_and_goes_on(
    harness: RefinementHarness, report: ReportSpending, store: Store, redis_url: str
) -> None:
    refinement_id = await harness.submit()
    await store.access.set_quotas(TENANT, Quotas(tokens_per_day=1))
    await report(1, {TENANT: Spent(tokens=1)})
    models = scores(0.9)
    quotas, worker = await metered(harness, models, report)
    await harness.deliver(worker, refinement_id)
    parked = await harness.snapshot(refinement_id)
    assert parked.status is Status.RUNNING
    assert parked.waiting is not None
    assert (parked.waiting.reason, parked.waiting.model) == ("tenant_quota", QUOTA)
    assert parked.started_at is not None
    assert (parked.waiting.until - parked.started_at).total_seconds() <= A_DAY_S + 5
    assert await harness.worker_store.parked(9) == {QUOTA: 1}
    assert await quotas.permits(QUOTA, 5) == 0
    assert not models.calls
    await store.access.set_quotas(TENANT, Quotas(tokens_per_day=1_000_000))
    async with open_spending(Settings(redis_url=redis_url), "second") as of_second:
        assert of_second
        again, worker = await metered(harness, models, of_second)
        assert await again.permits(QUOTA, 5) == 5
        assert await harness.resume(QUOTA) == 1
        await harness.deliver(worker, refinement_id)
        await again.aclose()
    assert (await harness.snapshot(refinement_id)).status is Status.SUCCEEDED
    spent = 1 + models.calls.total() * (models.usage.input_tokens + models.usage.output_tokens)
    assert (await store.access.use(TENANT)).tokens_today == spent


async def test_new_refinements_are_refused_for_the_rest_of_the_day(
    harness: RefinementHarness, report: ReportSpending, store: Store
) -> None:
    await store.access.set_quotas(TENANT, Quotas(cost_usd_per_day=0.5))
    await harness.submit()
    await report(1, {TENANT: Spent(cost_usd=0.5)})
    with pytest.raises(QuotaExceeded, match="dollars a day") as refused:
        await harness.submit()
    assert 0 < (refused.value.retry_after_s or 0) <= A_DAY_S


@dataclass
class LosesAnswers:
    """A way to Redis on which the first answer is lost, and the first after something was spent."""

    report: ReportSpending
    lost: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)

    async def __call__(self, number: int, spent: Mapping[str, Spent]) -> dict[str, DaySpending]:
        self.numbers.append(number)
        found = await self.report(number, spent)
        if not self.lost or (len(self.lost) == 1 and any(it.tokens for it in spent.values())):
            self.lost.append(number)
            raise RedisConnectionError("the answer was lost")
        return found


async def test_what_was_spent_counts_once_though_the_answer_is_lost_and_calls_go_on(
    harness: RefinementHarness, report: ReportSpending, store: Store
) -> None:
    refinement_id = await harness.submit()
    models = scores(0.9)
    losing = LosesAnswers(report)
    quotas, worker = await metered(harness, models, losing)
    await harness.deliver(worker, refinement_id)
    assert (await harness.snapshot(refinement_id)).status is Status.SUCCEEDED
    await quotas.aclose()
    await quotas.aclose()
    assert len(losing.lost) == 2
    assert all(losing.numbers.count(it) == 2 for it in losing.lost)
    per_call = models.usage.input_tokens + models.usage.output_tokens
    assert (await store.access.use(TENANT)).tokens_today == models.calls.total() * per_call


async def test_workers_learn_what_others_spend_and_tenants_are_apart(
    redis_url: str, report: ReportSpending, store: Store
) -> None:
    async with open_spending(Settings(redis_url=redis_url), "second") as second:
        assert second
        await store.access.set_quotas("a", Quotas(tokens_per_day=15))
        assert not (await report(1, {"a": Spent(10, 0.25), "b": Spent(3)}))["a"].is_over
        found = await second(1, {"a": Spent(5, 0.25)})
    assert found["a"].is_over
    assert (found["a"].spent.tokens, found["a"].spent.cost_usd) == (15, 0.5)
    assert (await store.access.use("b")).tokens_today == 3
