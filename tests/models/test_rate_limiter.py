"""The limiter in simulated time, on a real Redis: what it lets through, and when."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Any, TypeVar

import pytest
from prometheus_client import REGISTRY
from pydantic import ValidationError
from redis import Redis

from app.contract.judgement import Usage
from app.settings import ModelServer, Settings, limits_in_words
from app.store.rate_limits import PermitReport, Permits, permit_words, permits_in
from app.store.redis import keys
from app.store.redis.scripts import PERMITS
from benchmarks.limiter import (
    BenchedWorker,
    Scene,
    SimulatedExchange,
    SimulatedProvider,
    call,
    play,
    run_skipping,
)
from benchmarks.rate_limits import Kind, RefillingBucket
from workers.models.port import ModelReply, ModelWaits, NotServed
from workers.models.rate_limiter import WAIT_S, CallQueue, RateLimiter

T = TypeVar("T")
REPLY = ModelReply("", "p:m", Usage(calls=1, input_tokens=700, output_tokens=300))


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    with Redis.from_url(redis_url) as client:
        yield client


@dataclass
class ScriptedProvider:
    """A provider whose calls fail with `failure` while it is set; `at` has the time of each."""

    failure: NotServed | None = None
    latency_s: float = 0.2
    at: list[float] = field(default_factory=list)

    async def complete(self) -> ModelReply:
        self.at.append(asyncio.get_running_loop().time())
        if self.failure:
            await asyncio.sleep(0.01)
            raise self.failure
        await asyncio.sleep(self.latency_s)
        return REPLY

    def between(self, begins: float, ends: float) -> int:
        return sum(begins <= it < ends for it in self.at)


def simulated(
    redis: Redis,
    main: Callable[[list[RateLimiter]], Awaitable[T]],
    workers: int = 1,
    grace_s: float | None = None,
) -> T:
    """Run a coroutine function with the limiters of so many workers, in simulated time."""

    async def run() -> T:
        chance = Random(7)
        limiters = [
            RateLimiter(SimulatedExchange(redis, f"w{n}"), chance.random, grace_s)
            for n in range(workers)
        ]
        try:
            return await main(limiters)
        finally:
            for limiter in limiters:
                await limiter.aclose()

    return run_skipping(run())


async def failed(limiter: RateLimiter, provider: Any, name: str = "p:m") -> ModelWaits:
    """Make one call, which is not served; return why."""
    with pytest.raises(ModelWaits) as caught:
        await once(limiter, provider, name)
    return caught.value


async def once(limiter: RateLimiter, provider: Any, name: str = "p:m") -> None:
    """Make one call, once."""
    gate = limiter.gate(name, "f")
    under_way = await limiter.enter(gate, call())
    try:
        gate.answered(under_way, await provider.complete())
    except NotServed as error:
        raise limiter.refused(gate, under_way, error, 0) from None


KINDS: tuple[Kind, ...] = ("sliding", "bucket")
SCENES = [
    scene
    for kind in KINDS
    for scene in (
        Scene(kind),
        Scene(kind, workers=2, has_retry_after=True),
        Scene(kind, workers=4, has_retry_after=True, fields="openai"),
        Scene(kind, workers=4),
    )
]


@pytest.mark.parametrize("scene", SCENES)
def test_all_calls_succeed_in_little_more_than_the_ideal_time(scene: Scene, redis: Redis) -> None:
    outcome = run_skipping(play(scene, redis))
    assert outcome.calls - outcome.refused == 500
    assert outcome.seconds <= 1.3 * scene.ideal_s
    assert outcome.refused <= 0.06 * outcome.calls


@pytest.mark.parametrize("has_retry_after", [True, False])
def test_a_limit_of_a_minute_is_used_up_in_every_minute(
    has_retry_after: bool, redis: Redis
) -> None:
    minute = Scene("fixed", 1200, 60.0, calls=30, workers=2, has_retry_after=has_retry_after)
    outcome = run_skipping(play(minute, redis))
    assert outcome.seconds <= 1.3 * minute.ideal_s
    assert outcome.refused <= 0.1 * outcome.calls


def test_a_model_without_a_known_limit_costs_no_exchange_per_call(redis: Redis) -> None:
    outcome = run_skipping(play(Scene("bucket", 100_000), redis))
    assert (outcome.calls, outcome.refused) == (500, 0)
    assert outcome.exchanges <= 2


def test_permits_are_leased_in_bulk(redis: Redis) -> None:
    outcome = run_skipping(play(Scene("bucket", 200, refinements=400, calls=10), redis))
    assert outcome.exchanges < outcome.calls / 4


async def test_tenants_take_turns_and_the_furthest_along_goes_first() -> None:
    queue, loop = CallQueue(), asyncio.get_running_loop()
    names: dict[asyncio.Future[None], str] = {}
    for name, tenant, progress in (
        ("a0", "a", 0),
        ("a5", "a", 5),
        ("a5 again", "a", 5),
        ("b1", "b", 1),
        ("b2", "b", 2),
    ):
        waiting = loop.create_future()
        names[waiting] = name
        queue.push(tenant, progress, waiting)
    popped = [queue.pop() for _ in names]
    assert [names[it] for it in popped if it] == ["a5", "b2", "a5 again", "b1", "a0"]
    assert (len(queue), queue.pop()) == (0, None)


async def test_a_call_that_was_cancelled_is_skipped() -> None:
    queue, loop = CallQueue(), asyncio.get_running_loop()
    first, second = loop.create_future(), loop.create_future()
    queue.push("a", 1, first)
    queue.push("a", 0, second)
    first.cancel()
    queue.discard()
    assert queue.pop() is second


def test_an_outage_opens_the_breaker_for_all_and_few_probes_close_it(redis: Redis) -> None:
    provider = ScriptedProvider(NotServed("overloaded", "503"))

    async def main(limiters: list[RateLimiter]) -> None:
        loop = asyncio.get_running_loop()
        workers = [BenchedWorker(it, provider) for it in limiters]  # type: ignore[arg-type]
        recovering = [asyncio.create_task(it.recover()) for it in workers]
        calls = [asyncio.create_task(workers[n % 2].answer(call())) for n in range(100)]
        loop.call_at(60.0, setattr, provider, "failure", None)
        await asyncio.sleep(59)
        assert not any(it.done() for it in calls)
        assert (await failed(limiters[1], provider)).is_open
        await asyncio.gather(*calls)
        for task in recovering:
            task.cancel()

    simulated(redis, main, workers=2)
    assert provider.between(0, 5) <= 40
    assert provider.between(5, 60) <= 5
    assert provider.between(60, 200) == 100 + (len(provider.at) - 100 - provider.between(0, 60))
    resumed = next(it for it in provider.at if it >= 60)
    assert resumed <= 92
    assert provider.between(resumed, resumed + 0.5) <= 10  # it rises, rather than jumping
    assert max(provider.at) <= resumed + 15


def test_a_refused_key_stops_all_models_of_the_provider_and_no_other(redis: Redis) -> None:
    refusing = ScriptedProvider(NotServed("unauthorized", "the key is wrong"))
    fine = ScriptedProvider()

    async def main(limiters: list[RateLimiter]) -> None:
        first, second = limiters
        await once(second, fine, "p:other")
        waits = await failed(first, refusing)
        assert (waits.reason, waits.is_open) == ("unauthorized", True)
        await asyncio.sleep(0.2)
        for limiter, name in ((first, "p:m"), (first, "p:other"), (second, "p:third")):
            waits = await failed(limiter, fine, name)
            assert (waits.reason, waits.is_open) == ("unauthorized", True)
            assert "the key is wrong" in waits.detail
        await once(first, fine, "q:m")
        assert len(fine.at) == 2
        await asyncio.sleep(5)
        await once(first, fine)  # a probe
        await asyncio.sleep(2)
        await once(second, fine, "p:third")

    simulated(redis, main, workers=2)


@pytest.mark.parametrize(("quiet_s", "is_shown"), [(1, 1), (600, 1), (1_000, 0)])
def test_an_open_breaker_is_shown_until_nothing_has_waited_for_it_for_long(
    quiet_s: int, is_shown: int, redis: Redis
) -> None:
    async def main(limiters: list[RateLimiter]) -> None:
        await failed(limiters[0], ScriptedProvider(NotServed("unauthorized", "the key is wrong")))
        await asyncio.sleep(quiet_s)
        assert shown() == is_shown

    def shown() -> float | None:
        return REGISTRY.get_sample_value("hone_model_breaker_open", {"model": "p:m"})

    simulated(redis, main)


REFUSALS = [NotServed("unauthorized", "403"), NotServed("quota_exhausted", "402")]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda it: it.reason)
def test_a_model_that_is_refused_does_not_hold_up_the_others_of_its_provider(
    refusal: NotServed, redis: Redis
) -> None:
    forbidden, fine = ScriptedProvider(refusal), ScriptedProvider()

    async def main(limiters: list[RateLimiter]) -> None:
        first = BenchedWorker(limiters[0], forbidden)  # type: ignore[arg-type]
        others = [BenchedWorker(it, fine) for it in limiters]  # type: ignore[arg-type]
        recovering = [asyncio.create_task(it.recover("p:fine")) for it in others]
        recovering.append(asyncio.create_task(first.recover("p:forbidden")))
        refused = [asyncio.create_task(first.answer(call(), "p:forbidden")) for _ in range(5)]
        await asyncio.sleep(0.5)
        answers = [asyncio.create_task(others[n % 2].answer(call(), "p:fine")) for n in range(20)]
        await asyncio.wait_for(asyncio.gather(*answers), 5)
        for _ in range(300):
            await asyncio.sleep(1)
            await once(limiters[1], fine, "p:fine")
        for task in (*recovering, *refused):
            task.cancel()

    simulated(redis, main, workers=2)
    assert 3 <= len(forbidden.at) <= 30


def test_the_breaker_of_a_provider_is_closed_for_all_workers_by_one_answer(redis: Redis) -> None:
    refusing = ScriptedProvider(NotServed("unauthorized", "the key is wrong"))
    fine = ScriptedProvider()

    async def main(limiters: list[RateLimiter]) -> None:
        for limiter in limiters:
            await failed(limiter, refusing)
            await failed(limiter, refusing, "p:other")
        await asyncio.sleep(20)
        await once(limiters[0], fine)
        await asyncio.sleep(2)
        await once(limiters[1], fine, "p:other")
        await once(limiters[2], fine, "p:third")

    simulated(redis, main, workers=3)
    assert not redis.hexists(keys.LIMIT + "p@f", "open_at")


def test_an_answer_to_a_worker_that_knew_of_no_outage_closes_the_breaker(redis: Redis) -> None:
    away, fine = ScriptedProvider(NotServed("unreachable", "reset")), ScriptedProvider()

    async def main(limiters: list[RateLimiter]) -> None:
        for _ in range(5):
            await failed(limiters[0], away)
        await asyncio.sleep(5)
        assert await limiters[0].permits(limiters[0].gate("p:m", "f"), 1) == 1
        gate = limiters[1].gate("p:m", "f")  # another worker claims what has the permit
        under_way = await limiters[1].enter(gate, replace(call(), has_permit=True))
        gate.answered(under_way, await fine.complete())
        await asyncio.sleep(1)

    simulated(redis, main, workers=2)
    assert not redis.hexists(keys.LIMIT + "p:m@f", "open_at")


def test_what_is_free_for_one_worker_closes_the_breaker_of_another(redis: Redis) -> None:
    away, fine = ScriptedProvider(NotServed("unreachable", "reset")), ScriptedProvider()

    async def main(limiters: list[RateLimiter]) -> None:
        await once(limiters[1], fine)
        for _ in range(5):
            await failed(limiters[0], away)
        await asyncio.sleep(1)
        assert redis.hexists(keys.LIMIT + "p:m@f", "open_at")
        for _ in range(40):
            await asyncio.sleep(1)
            await once(limiters[1], fine)

    simulated(redis, main, workers=2)
    assert not redis.hexists(keys.LIMIT + "p:m@f", "open_at")


def test_another_key_is_not_held_back(redis: Redis) -> None:
    async def main(limiters: list[RateLimiter]) -> None:
        refusing = ScriptedProvider(NotServed("unauthorized", "the key is wrong"))
        await failed(limiters[0], refusing)
        await asyncio.sleep(0.2)
        under_way = await limiters[1].enter(limiters[1].gate("p:m", "another"), call())
        limiters[1].gate("p:m", "another").answered(under_way, REPLY)

    simulated(redis, main, workers=2)


def test_exhausted_credit_is_asked_for_less_often(redis: Redis) -> None:
    provider = ScriptedProvider(NotServed("quota_exhausted", "no credit"))

    async def main(limiters: list[RateLimiter]) -> None:
        worker = BenchedWorker(limiters[0], provider)  # type: ignore[arg-type]
        recovering = asyncio.create_task(worker.recover())
        waiting = asyncio.create_task(worker.answer(call()))
        await asyncio.sleep(3_600)
        recovering.cancel()
        waiting.cancel()

    simulated(redis, main)
    assert 5 <= len(provider.at) <= 20


def test_a_limited_provider_does_not_hold_up_another(redis: Redis) -> None:
    async def main(limiters: list[RateLimiter]) -> float:
        loop = asyncio.get_running_loop()
        limited = BenchedWorker(limiters[0], SimulatedProvider(RefillingBucket(20, 1.0)))
        free = BenchedWorker(limiters[0], SimulatedProvider(RefillingBucket(10_000, 1.0)))
        others = [asyncio.create_task(limited.answer(call())) for _ in range(300)]
        await asyncio.sleep(1)
        began = loop.time()
        await asyncio.gather(*(free.answer(call(), "q:m") for _ in range(100)))
        seconds = loop.time() - began
        for other in others:
            other.cancel()
        return seconds

    assert simulated(redis, main) < 1.5


def test_without_redis_workers_go_on_more_slowly(redis: Redis) -> None:
    provider = SimulatedProvider(RefillingBucket(20, 1.0))

    async def main(limiters: list[RateLimiter]) -> None:
        exchange = limiters[0]._exchange
        assert isinstance(exchange, SimulatedExchange)
        worker = BenchedWorker(limiters[0], provider)
        recovering = asyncio.create_task(worker.recover())
        calls = [asyncio.create_task(worker.answer(call())) for _ in range(200)]
        await asyncio.sleep(2)
        exchange.is_away = True
        await asyncio.gather(*calls)
        recovering.cancel()

    simulated(redis, main)
    assert provider.counts["refused"] <= 20


def test_without_redis_an_outage_costs_few_calls(redis: Redis) -> None:
    provider = ScriptedProvider(NotServed("unreachable", "no route"))

    async def main(limiters: list[RateLimiter]) -> None:
        exchange = limiters[0]._exchange
        assert isinstance(exchange, SimulatedExchange)
        exchange.is_away = True
        worker = BenchedWorker(limiters[0], provider)  # type: ignore[arg-type]
        recovering = asyncio.create_task(worker.recover())
        calls = [asyncio.create_task(worker.answer(call())) for _ in range(100)]
        await asyncio.sleep(60)
        provider.failure = None
        await asyncio.gather(*calls)
        recovering.cancel()

    simulated(redis, main)
    assert 5 <= provider.between(0, 60) <= 60
    assert provider.between(10, 60) <= 6


def test_permits_for_what_waits_are_part_of_the_same_rate(redis: Redis) -> None:
    provider = ScriptedProvider(NotServed("rate_limited", "429"))

    async def main(limiters: list[RateLimiter]) -> None:
        limiter = limiters[0]
        gate = limiter.gate("p:m", "f")
        await failed(limiter, provider)
        assert await limiter.permits(gate, 5) == 0  # nothing at once
        taken = 0
        for _ in range(20):
            await asyncio.sleep(0.5)
            taken += await limiter.permits(gate, 5)
        assert 1 <= taken <= 15

    simulated(redis, main)


A_MINUTE_S = 60.0


def without_cell0(
    redis: Redis, away: int, caps: dict[str, float], latency_s: float = 0.2
) -> ScriptedProvider:
    """Play four busy workers of other cells, of which some lack cell 0 from second 20 to 110."""
    provider = ScriptedProvider(latency_s=latency_s)

    async def refine(worker: BenchedWorker) -> None:
        for step in count():
            await worker.answer(call(step))

    async def main(limiters: list[RateLimiter]) -> None:
        playing = []
        for limiter in limiters:
            limiter.gate("p:m", "f", caps)
            worker = BenchedWorker(limiter, provider)  # type: ignore[arg-type]
            playing += [asyncio.create_task(refine(worker)) for _ in range(8)]
            playing.append(asyncio.create_task(worker.recover()))
        for is_away in (True, False):
            await asyncio.sleep(20 if is_away else 90)
            for limiter in limiters[:away]:
                exchange = limiter._exchange
                assert isinstance(exchange, SimulatedExchange)
                exchange.is_away = is_away
        await asyncio.sleep(30)
        for task in playing:
            task.cancel()

    simulated(redis, main, workers=4, grace_s=A_MINUTE_S)
    return provider


def test_without_cell_0_workers_use_their_shares_for_the_grace_and_then_make_no_call(
    redis: Redis,
) -> None:
    provider = without_cell0(redis, away=4, caps={"requests": 600})
    assert provider.between(10, 20) == pytest.approx(100, abs=5)
    assert 200 <= provider.between(23, 80) <= 300  # half of their shares
    assert all(provider.between(at, at + 1) <= 10 for at in range(23, 80))
    assert provider.between(82, 110) == 0
    assert provider.between(115, 125) == pytest.approx(100, abs=10)


def test_the_share_of_a_worker_that_lacks_cell_0_is_kept_from_the_others(redis: Redis) -> None:
    provider = without_cell0(redis, away=3, caps={"requests": 600})
    for begins in range(20, 80, 10):
        assert provider.between(begins, begins + 10) <= 100
    assert provider.between(30, 80) >= 200
    assert provider.between(90, 110) == pytest.approx(200, abs=20)  # all of it is the others'


@pytest.mark.parametrize("away", [2, 4])
def test_calls_in_flight_stay_within_their_limit_without_cell_0(away: int, redis: Redis) -> None:
    provider = without_cell0(redis, away, {"in_flight": 12}, latency_s=2.0)
    assert all(provider.between(at, at + 2) <= 12 for at in range(20, 110))
    assert provider.between(25, 75) >= 200


def most_at_once(at: list[float], latency_s: float) -> int:
    return max(sum(began <= it < began + latency_s for began in at) for it in at)


@pytest.mark.parametrize("away_s", [0, 5, 25])
def test_calls_in_flight_stay_within_their_limit_whoever_resumes_what_is_parked(
    away_s: float, redis: Redis
) -> None:
    provider = ScriptedProvider(latency_s=20)
    parked, chance = list[asyncio.Future[None]](), Random(3)

    async def resume(limiter: RateLimiter) -> None:
        gate = limiter.gate("p:m", "f", {"in_flight": 5})
        while True:
            await asyncio.sleep(0.5)
            for _ in range(await limiter.permits(gate, len(parked))):
                asyncio.get_running_loop().call_later(
                    chance.random(), parked.pop(0).set_result, None
                )

    async def main(limiters: list[RateLimiter]) -> None:
        resuming = [asyncio.create_task(resume(limiter)) for limiter in limiters]
        workers = [BenchedWorker(it, provider, parked) for it in limiters]  # type: ignore[arg-type]
        await asyncio.sleep(0.1)
        playing = [asyncio.create_task(workers[n % 3].answer(call())) for n in range(30)]
        for is_away in (True, False):
            await asyncio.sleep(away_s if not is_away else 30)
            for limiter in limiters:
                exchange = limiter._exchange
                assert isinstance(exchange, SimulatedExchange)
                exchange.is_away = is_away
        await asyncio.gather(*playing)
        for task in resuming:
            task.cancel()

    simulated(redis, main, workers=3)
    assert most_at_once(provider.at, 20) == 5


def test_what_its_last_calls_had_is_free_for_other_workers_at_once(redis: Redis) -> None:
    provider = ScriptedProvider(latency_s=1)

    async def main(limiters: list[RateLimiter]) -> None:
        for limiter in limiters:
            limiter.gate("p:m", "f", {"in_flight": 1})
            await once(limiter, provider)

    simulated(redis, main, workers=3)
    assert max(provider.at) < 5


def test_a_probe_is_no_call_more_than_the_limit_allows(redis: Redis) -> None:
    caps = {"in_flight": 2.0}
    bad = PermitReport(1, 1, in_flight=2, bad=5, bad_reason="unreachable", caps=caps)
    assert exchanged(redis, "w1", 1, bad).reason == "unreachable"
    assert exchanged(redis, "w2", 5, PermitReport(1, 1, 1, caps=caps)).parked == 0
    assert exchanged(redis, "w1", 6, PermitReport(2, in_flight=1, caps=caps)).granted == 0
    assert exchanged(redis, "w2", 7, PermitReport(2, 1, 1, caps=caps)).parked == 1  # is invited
    assert exchanged(redis, "w3", 8, PermitReport(1, 1, caps=caps)).granted == 0
    assert exchanged(redis, "w2", 9, PermitReport(3, 1, caps=caps)).granted == 1


def test_a_cancelled_call_gives_its_permit_back(redis: Redis) -> None:
    async def main(limiters: list[RateLimiter]) -> None:
        gate = limiters[0].gate("p:m", "f", {"in_flight": 1})
        first = await limiters[0].enter(gate, call())
        waiting = asyncio.create_task(limiters[0].enter(gate, call()))
        await asyncio.sleep(1)
        assert not waiting.done()
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        gate.end(first)
        await limiters[0].enter(gate, call())
        assert gate.in_flight == 1

    simulated(redis, main)


def test_no_permit_within_the_wait_is_an_error_with_the_time_of_the_next(redis: Redis) -> None:
    async def main(limiters: list[RateLimiter]) -> None:
        gate = limiters[0].gate("p:m", "f", {"requests": 6})
        loop = asyncio.get_running_loop()
        await limiters[0].enter(gate, call())
        began = loop.time()
        with pytest.raises(ModelWaits) as caught:
            await limiters[0].enter(gate, call())
        assert loop.time() - began <= WAIT_S
        assert caught.value.reason == "rate_limited"
        assert 0 < caught.value.wait_s <= 10

    simulated(redis, main)


def exchanged(redis: Redis, worker: str, at_s: float, report: PermitReport) -> Permits:
    answer = redis.eval(PERMITS.text, 0, *permit_words("p:m@f", "p@f", worker, report, at_s * 1000))
    assert isinstance(answer, bytes)
    return permits_in(answer)


def test_the_calls_of_a_dead_worker_are_forgotten(redis: Redis) -> None:
    want = PermitReport(wanted=10, caps={"in_flight": 10})
    assert exchanged(redis, "dies", 1, want).granted == 10
    granted = [
        exchanged(redis, "lives", at, replace(want, number=at)).granted for at in range(2, 17)
    ]
    assert [*map(bool, granted)] == [False] * 14 + [True]


def test_calls_of_a_worker_without_cell_0_count_until_its_last_one_has_ended(redis: Redis) -> None:
    caps = {"in_flight": 5.0}
    cut_off = PermitReport(1, in_flight=5, caps=caps, away_ms=60_000, call_ms=120_000)
    exchanged(redis, "cut off", 1, cut_off)
    for at_s in range(2, 183):
        granted = exchanged(redis, "w", at_s, PermitReport(at_s, 1, caps=caps)).granted
        assert granted == (at_s > 180)


def test_the_sum_of_calls_under_way_is_right_whoever_reports_or_dies(redis: Redis) -> None:
    chance, calls, dies_at = Random(5), dict[str, int](), dict[str, float]()
    for n in range(1, 400):
        at_s, worker = float(n), f"w{chance.randrange(12)}"
        report = PermitReport(n, chance.randrange(3), in_flight=n % 7, caps={"in_flight": 30})
        given = exchanged(redis, worker, at_s, report).granted
        calls[worker], dies_at[worker] = report.in_flight + given, at_s + 15
        kept = redis.hget(keys.LIMIT + "p:m@f", "calls")
        assert isinstance(kept, bytes)
        assert float(kept) == sum(calls[name] for name, ends in dies_at.items() if ends > at_s)
        if n % 100 == 0:  # the sum has expired
            dies_at = dict.fromkeys(dies_at, 0.0)
            redis.delete(keys.LIMIT + "p:m@f")


def test_caps_of_settings_hold_for_all_workers_together(redis: Redis) -> None:
    def granted(caps: dict[str, float], input_tokens: float = 1) -> int:
        redis.flushall()
        reports = (
            PermitReport(number=n, wanted=1_000, caps=caps, input=input_tokens) for n in range(602)
        )
        return sum(
            exchanged(redis, f"w{n % 2}", 1 + n / 10, report).granted
            for n, report in enumerate(reports)
        )

    assert 590 <= granted({"requests": 600}) <= 620
    assert 55 <= granted({"input_tokens": 60_000}, 1_000) <= 65


def test_what_waits_for_calls_in_flight_leaves_the_worker_and_goes_on_as_they_end(
    redis: Redis,
) -> None:
    slow = ScriptedProvider(latency_s=60)

    async def main(limiters: list[RateLimiter]) -> None:
        gate = limiters[0].gate("p:m", "f", {"in_flight": 2})
        calls = [asyncio.create_task(once(limiters[0], slow)) for _ in range(2)]
        await asyncio.sleep(0.5)
        assert (await failed(limiters[0], slow)).wait_s >= WAIT_S
        assert asyncio.get_running_loop().time() < WAIT_S + 1
        assert await limiters[0].permits(gate, 1) == 0
        await asyncio.gather(*calls)
        assert await limiters[0].permits(gate, 3) == 2

    simulated(redis, main)
    assert len(slow.at) == 2


def test_a_reported_limit_that_is_nearly_used_up_is_heeded(redis: Redis) -> None:
    said = {"requests": {"limit": 500.0, "remaining": 3.0, "reset": 60_000.0}}
    first = exchanged(redis, "w", 1, PermitReport(number=1, wanted=50, limits=said))
    assert (first.leased, first.granted) == (True, 3)
    assert first.rate == pytest.approx(497 / 60)


@pytest.mark.parametrize(
    ("text", "caps"),
    [
        (
            "openai:gpt-5-mini=requests:500,in_flight:50 anthropic:*=input_tokens:80000",
            {
                "openai:gpt-5-mini": {"requests": 500, "in_flight": 50},
                "anthropic:*": {"input_tokens": 80_000},
            },
        ),
        ("a:x=requests:1;b:y=tokens:2", {"a:x": {"requests": 1}, "b:y": {"tokens": 2}}),
        ("a:x=requests:2000000,tokens:1", {"a:x": {"requests": 2_000_000, "tokens": 1}}),
        ('{"a:x:7b": {"requests": 1}}', {"a:x:7b": {"requests": 1}}),
        ("", {}),
    ],
)
def test_limits_are_read_from_settings(text: str, caps: dict[str, dict[str, float]]) -> None:
    servers = dict.fromkeys("ab", ModelServer(base_url="http://127.0.0.1/v1"))
    settings = Settings(_env_file=None, limits=text, providers=servers)  # type: ignore[arg-type]
    assert settings.limits == caps
    shown = limits_in_words(settings.limits)
    again = Settings(_env_file=None, limits=shown, providers=servers)  # type: ignore[arg-type]
    assert again.limits == caps
    assert settings.caps_of("anthropic:claude") == caps.get("anthropic:*")


@pytest.mark.parametrize(
    "text",
    [
        "openai:x=request:5",
        "openai:x",
        "openai=requests:5",
        "openai:x=requests:0",
        "openai:x=requests:many",
        "openai:x=requests:5 openai:x=tokens:5",
        "openai:x=requests:5,requests:6",
        "opnai:x=requests:5",
        "offline:*=requests:5",
        '{"openai:x": {"rpm": 5}}',
    ],
)
def test_limits_that_are_misspelt_are_an_error(text: str) -> None:
    with pytest.raises(ValidationError):
        Settings(_env_file=None, limits=text)  # type: ignore[arg-type]


def test_endpoints_that_clients_name_are_limited_and_not_listed(redis: Redis) -> None:
    bad = PermitReport(number=1, bad=5, bad_reason="overloaded", detail="away")
    words = permit_words("endpoint:e.com/a@validator", "endpoint@validator", "worker", bad, 1_000)
    answer = redis.eval(PERMITS.text, 0, *words)
    assert isinstance(answer, bytes)
    assert permits_in(answer).reason == "overloaded"
    exchanged(redis, "worker", 1, bad)
    assert redis.zrange(keys.LIMITS, 0, -1) == [b"p:m@f"]


def test_a_breaker_is_tried_as_soon_as_before_though_the_clock_was_set_back(redis: Redis) -> None:
    bad = PermitReport(number=1, bad=5, bad_reason="overloaded", detail="away")
    wrong_key = PermitReport(number=2, key_reason="unauthorized", detail="wrong key")
    for n, opens in ((1, bad), (2, wrong_key)):
        redis.flushall()
        before = exchanged(redis, "worker", 7_200, opens).paused_ms
        asking = PermitReport(number=3, wanted=1)
        assert exchanged(redis, "worker", 100 + n, asking).paused_ms == before
        assert exchanged(
            redis, "worker", 100 + n + before / 1000, replace(asking, number=4)
        ).granted


def test_models_that_nobody_uses_any_more_are_not_listed(redis: Redis) -> None:
    redis.zadd(keys.LIMITS, {"p:old@f": 1_000})
    exchanged(redis, "worker", 2 * 3_600, PermitReport(number=1))
    assert redis.zrange(keys.LIMITS, 0, -1) == [b"p:m@f"]
