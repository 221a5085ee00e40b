"""What a tenant may spend in a day: calls over it wait, visibly, and without a worker."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from app.contract.access import Quotas
from app.contract.errors import QuotaExceeded
from app.contract.judgement import Usage
from app.contract.status import Status
from app.local.embedded import EmbeddedRedis
from app.queue import RefinementQueue
from app.settings import Settings
from app.store import DaySpending, ReportSpending, Spent, Store, open_spending, open_store
from app.store.redis import keys
from app.store.redis.scripts import DAY_MS, SPEND
from app.store.worker import Spending, spending_in, spending_words
from benchmarks.limiter import call, run_skipping
from tests.waiting import TIMEOUT_S
from tests.workers.refinement_harness import (
    TENANT,
    TEST_MODEL,
    RefinementHarness,
    ScriptedAnswers,
    scores,
)
from workers.models.port import ModelCall, ModelReply, ModelWaits
from workers.play.limits import MOST_KNOWN, PARK_AFTER_S, DayQuotas
from workers.play.refinements import Refinements

QUOTA = f"quota:{TENANT}"
MODEL = TEST_MODEL.model
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
    await report(1, {TENANT: Spent(tokens=1)}, None)
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
    await report(1, {TENANT: Spent(cost_usd=0.5)}, None)
    with pytest.raises(QuotaExceeded, match="dollars a day") as refused:
        await harness.submit()
    assert 0 < (refused.value.retry_after_s or 0) <= A_DAY_S


@dataclass
class LosesAnswers:
    """A way to Redis on which the first answer is lost, and the first after something was spent."""

    report: ReportSpending
    lost: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)

    async def __call__(
        self, number: int, spent: Spending, wanted: Spending | None
    ) -> dict[str, DaySpending]:
        self.numbers.append(number)
        found = await self.report(number, spent, wanted)
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
        assert not (await report(1, {"a": Spent(10, 0.25), "b": Spent(3)}, None))["a"].is_over
        found = await second(1, {"a": Spent(5, 0.25)}, None)
    assert found["a"].is_over
    assert (found["a"].spent.tokens, found["a"].spent.cost_usd) == (15, 0.5)
    assert (await store.access.use("b")).tokens_today == 3


@dataclass
class SimulatedSpending:
    """Reports spending through a real Redis in simulated time; `is_away` fails the report."""

    redis: Redis
    worker: str
    is_away: bool = False

    async def __call__(
        self, number: int, spent: Spending, wanted: Spending | None
    ) -> dict[str, DaySpending]:
        if self.is_away:
            raise RedisConnectionError("cell 0 is away")
        words = spending_words(self.worker, number, spent, wanted)
        answer = self.redis.eval(SPEND.text, 0, *words)
        assert isinstance(answer, list)
        return spending_in(spent, answer)


class TenTokens:
    """A model that consumes ten tokens for every call."""

    async def complete(self, name: str, call: ModelCall) -> ModelReply:
        return ModelReply("", name, Usage(calls=1, input_tokens=7, output_tokens=3))

    async def permits(self, name: str, most: int) -> int:
        return most


async def calls_made(quotas: DayQuotas, most: int, tenant: str = TENANT) -> int:
    """Make calls, ten a second, until one has to wait; return how many were made."""
    asked = replace(call(), tenant=tenant)
    for made in range(most):
        await asyncio.sleep(0.1)
        try:
            await quotas.complete("p:m", asked)
        except ModelWaits as waits:
            return made if waits.wait_s >= PARK_AFTER_S else -1
    return most


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    with Redis.from_url(redis_url) as client:
        yield client


def of_another_cell(redis: Redis, *names: str) -> tuple[list[SimulatedSpending], list[DayQuotas]]:
    """Return the ways of workers of other cells to cell 0, and their quotas."""
    ways = [SimulatedSpending(redis, name) for name in names]
    return ways, [DayQuotas(TenTokens(), way, 60.0) for way in ways]


def test_without_cell_0_a_worker_spends_what_is_reserved_for_it_and_others_leave_it(
    redis: Redis,
) -> None:
    redis.hset(keys.TENANTS, TENANT, Quotas(tokens_per_day=1_000).model_dump_json())
    (way, _), (first, second) = of_another_cell(redis, "first", "second")

    async def main() -> None:
        assert await calls_made(first, 20) == 20
        await asyncio.sleep(2)
        way.is_away = True
        alone = await calls_made(first, 100)
        assert 15 <= alone <= 20, "as many as it made of late"
        assert await first.permits(QUOTA, 3) == 0
        assert await calls_made(second, 100) == pytest.approx(100 - 20 - alone, abs=2)
        way.is_away = False
        assert await calls_made(first, 1) == 0, "the quota is used up"
        await first.aclose()

    run_skipping(main())
    spent = redis.hget(spent_today(redis), "tokens")
    assert isinstance(spent, bytes)
    assert 1_000 <= int(spent) <= 1_100, "a second's calls more at most"
    assert redis.hget(spent_today(redis), "reserved tokens") == b"0"


def test_what_is_reserved_is_given_back_by_a_worker_that_makes_no_more_calls(redis: Redis) -> None:
    redis.hset(
        keys.TENANTS, TENANT, Quotas(cost_usd_per_day=5, tokens_per_day=1_000).model_dump_json()
    )
    _, (first, second) = of_another_cell(redis, "first", "second")

    async def main() -> None:
        await calls_made(first, 20)
        await asyncio.sleep(2)
        assert float(redis.hget(spent_today(redis), "reserved tokens") or 0) > 100
        await asyncio.sleep(120)
        assert await calls_made(second, 100) == pytest.approx(80, abs=10)

    run_skipping(main())


def test_a_worker_forgets_the_tenants_that_it_asked_about_first() -> None:
    asked = list[str]()

    async def report(_n: int, spent: Spending, _wanted: object) -> dict[str, DaySpending]:
        asked.extend(spent)
        return dict.fromkeys(spent, DaySpending(Spent(), Quotas(), A_DAY_S))

    async def main() -> None:
        quotas, names = DayQuotas(TenTokens(), report), range(MOST_KNOWN + 1)
        for number in (*names, 1, 0):
            await quotas.permits(f"quota:{number}", 1)
        assert asked == [*map(str, names), "0"]

    run_skipping(main())


def test_without_cell_0_tenants_without_a_quota_go_on_for_the_grace(redis: Redis) -> None:
    (way,), (quotas,) = of_another_cell(redis, "first")

    async def main() -> int:
        assert await calls_made(quotas, 10) == 10
        way.is_away = True
        made = await calls_made(quotas, 1_000)
        assert made == pytest.approx(600, abs=15)
        assert await quotas.permits("p:m", 3) == 0
        assert await calls_made(quotas, 1, "unknown") == 0
        way.is_away = False
        await asyncio.sleep(2)
        assert await quotas.permits("p:m", 3) == 3
        assert await calls_made(quotas, 10) == 10
        await quotas.aclose()
        return made

    made = run_skipping(main())
    assert redis.hget(spent_today(redis), "tokens") == b"%d" % (10 * (20 + made))


async def test_a_refinement_is_parked_while_cell_0_is_away_and_goes_on_afterwards(
    harness: RefinementHarness, tmp_path: Path
) -> None:
    models = scores(0.9)
    with EmbeddedRedis(tmp_path) as cell0:
        async with open_spending(Settings(redis_url=cell0.url), "first") as report:
            assert report
            quotas = DayQuotas(models, report, 60.0)
            worker = Refinements(harness.worker_store, quotas, "first", models.outside)
            os.kill(cell0.pid, signal.SIGKILL)
            refinement_id = await harness.submit()
            await harness.deliver(worker, refinement_id)
            parked = await harness.snapshot(refinement_id)
            assert parked.waiting is not None
            assert (parked.waiting.reason, parked.waiting.model) == ("unreachable", MODEL)
            assert not models.calls
            cell0.revive()
            async with asyncio.timeout(TIMEOUT_S):
                while not await quotas.permits(MODEL, 1):  # noqa: ASYNC110 - it is asked
                    await asyncio.sleep(0.05)
            assert await harness.resume(MODEL) == 1
            await harness.deliver(worker, refinement_id)
    assert (await harness.snapshot(refinement_id)).status is Status.SUCCEEDED


def spent_today(redis: Redis) -> str:
    seconds, _ = redis.time()
    return keys.spent_on(TENANT, seconds * 1000 // DAY_MS)
