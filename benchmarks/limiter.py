"""The rate limiter against a provider that allows 20 calls a second, without waiting for it.

    python -m benchmarks.limiter      prints a table, and what a call costs without a limit

Workers, limiter and provider run on an event loop whose time is simulated; the permits come from a
real Redis, by that time. 100 refinements make 5 calls each (30 in windows of a minute), one after
the other.
"""

import asyncio
import selectors
import time
from collections import Counter
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from redis import Redis
from redis.exceptions import NoScriptError

from app.contract.judgement import Usage
from app.local.embedded import EmbeddedRedis
from app.store.rate_limits import PermitReport, Permits, permit_words, permits_in
from app.store.redis.scripts import PERMITS
from benchmarks.rate_limits import KINDS, Allowance, Fields, Kind, reported
from workers.engine.prompts import Prompt, Task, Write
from workers.model_registry import ModelRegistry
from workers.models.port import ModelCall, ModelReply, ModelWaits, NotServed
from workers.models.rate_limiter import RAMP_ENDS_S, WAIT_S, RateLimiter
from workers.models.remote import reported_limits

T = TypeVar("T")
REPLY = ModelReply("", "p:m", Usage(calls=1, input_tokens=700, output_tokens=300))
REFUSED_S = 0.01
"""How long a refusal takes."""


class _Skipping(selectors.SelectSelector):
    """Does not wait, and counts how long it would have."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("every coroutine waits for ever")
        self.now += max(timeout, 0)
        return super().select(0)


class SkippingLoop(asyncio.SelectorEventLoop):
    """An event loop on which time passes only when nothing else is left to do."""

    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.now


def run_skipping(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in simulated time."""
    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        return runner.run(main)


EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class SimulatedExchange:
    """Exchanges permits through a real Redis, by the time of the loop; `is_away` fails it."""

    redis: Redis
    worker: str
    is_away: bool = False
    exchanges: int = 0

    async def exchange(self, model: str, provider: str, report: PermitReport) -> Permits:
        """Exchange, which takes a millisecond."""
        await asyncio.sleep(0.001)
        if self.is_away:
            raise ConnectionError("Redis is away")
        self.exchanges += 1
        now_ms = 1e12 + asyncio.get_running_loop().time() * 1000
        words = permit_words(model, provider, self.worker, report, now_ms)
        try:
            answer = self.redis.evalsha(PERMITS.sha, 0, *words)
        except NoScriptError:
            answer = self.redis.eval(PERMITS.text, 0, *words)
        assert isinstance(answer, bytes)
        return permits_in(answer)


@dataclass
class SimulatedProvider:
    """A provider with a limit of requests."""

    allowance: Allowance
    fields: Fields = "none"
    has_retry_after: bool = False
    latency_s: float = 0.2
    counts: Counter[str] = field(default_factory=Counter)
    chance: Random = field(default_factory=lambda: Random(1))

    async def complete(self) -> ModelReply:
        """Answer after the latency, or refuse."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self.chance.uniform(0, 0.01))
        verdict = self.allowance.admit(loop.time())
        self.counts["calls"] += 1
        now = EPOCH + timedelta(seconds=loop.time())
        limits = reported_limits(
            reported(verdict, self.fields, now) | {"Date": f"{now:%a, %d %b %Y %H:%M:%S} GMT"}
        )
        if not verdict.is_allowed:
            self.counts["refused"] += 1
            await asyncio.sleep(REFUSED_S)
            retry_after_s = float(-(-verdict.retry_s // 1)) if self.has_retry_after else None
            raise NotServed("rate_limited", "429", retry_after_s=retry_after_s, limits=limits)
        await asyncio.sleep(self.latency_s * self.chance.uniform(0.95, 1.05))
        return replace(REPLY, limits=limits)


def call(progress: int = 0, tenant: str = "t", tries: int = 0) -> ModelCall:
    """Return a call of a refinement that has recorded so many steps."""
    request = Write(Task("x", None, (), "482913"))
    prompt = Prompt("write", 1, "", "", None)
    return ModelCall("m", prompt, request, "k", progress=progress, tenant=tenant, tries=tries)


class BenchedWorker:
    """Makes calls until they are answered; takes permits for those that wait for long."""

    def __init__(
        self,
        limiter: RateLimiter,
        provider: SimulatedProvider,
        parked: list[asyncio.Future[None]] | None = None,
    ) -> None:
        self.limiter = limiter
        self._provider = provider
        self._parked = [] if parked is None else parked

    async def answer(self, asked: ModelCall, name: str = "p:m") -> None:
        """Return once the call is answered."""
        gate = self.limiter.gate(name, "f")
        for tries in range(1_000):
            try:
                under_way = await self.limiter.enter(gate, asked)
                try:
                    reply = await self._provider.complete()
                except NotServed as error:
                    raise self.limiter.refused(gate, under_way, error, tries) from None
                gate.answered(under_way, reply)
                return
            except ModelWaits as waits:
                asked = replace(asked, has_permit=await self._wait(waits.wait_s))
        raise RuntimeError("a call was never answered")

    async def _wait(self, wait_s: float) -> bool:
        """Return whether the call has a permit then."""
        if wait_s < WAIT_S:
            await asyncio.sleep(wait_s)
            return False
        self._parked.append(asyncio.get_running_loop().create_future())
        await self._parked[-1]
        return True

    async def recover(self, name: str = "p:m") -> None:
        """Every half second, take permits for what is parked."""
        gate = self.limiter.gate(name, "f")
        while True:
            await asyncio.sleep(0.5)
            if self._parked:
                for _ in range(await self.limiter.permits(gate, len(self._parked))):
                    self._parked.pop(0).set_result(None)


@dataclass(frozen=True)
class Scene:
    """One row of the table."""

    kind: Kind
    limit: int = 20
    window_s: float = 1.0
    fields: Fields = "none"
    has_retry_after: bool = False
    workers: int = 1
    refinements: int = 100
    calls: int = 5
    latency_s: float = 0.2

    @property
    def ideal_s(self) -> float:
        """The least time for all calls at the allowed rate."""
        return self.refinements * self.calls * self.window_s / self.limit


@dataclass(frozen=True)
class ScenePlayed:
    """What a scene came to."""

    seconds: float
    refused: int
    calls: int
    exchanges: int


async def play(scene: Scene, redis: Redis) -> ScenePlayed:
    """Run a scene in the time of the running loop."""
    loop = asyncio.get_running_loop()
    allowance = KINDS[scene.kind](scene.limit, scene.window_s)
    provider = SimulatedProvider(allowance, scene.fields, scene.has_retry_after, scene.latency_s)
    exchanges = [SimulatedExchange(redis, f"w{n}") for n in range(scene.workers)]
    chance = Random(7)
    workers = [BenchedWorker(RateLimiter(it, chance.random), provider) for it in exchanges]
    recovering = [asyncio.create_task(it.recover()) for it in workers]

    async def refinement(number: int) -> None:
        for step in range(scene.calls):
            await workers[number % scene.workers].answer(call(step))

    began = loop.time()
    await asyncio.gather(*(refinement(n) for n in range(scene.refinements)))
    seconds = loop.time() - began
    for task in recovering:
        task.cancel()
    for worker in workers:
        await worker.limiter.aclose()
    counts = provider.counts
    return ScenePlayed(
        seconds, counts["refused"], counts["calls"], sum(e.exchanges for e in exchanges)
    )


def scenes() -> Iterable[Scene]:
    """Yield the rows of the table."""
    for workers in (1, 2, 4):
        for kind in ("sliding", "bucket"):
            yield Scene(kind, workers=workers)
            yield Scene(kind, workers=workers, has_retry_after=True)
            yield Scene(kind, workers=workers, fields="openai", has_retry_after=True)
            yield Scene(kind, workers=workers, fields="openai")
        for fields in ("none", "openai"):
            minute = Scene("fixed", 1200, 60.0, fields, workers=workers, calls=30)
            yield minute
            yield Scene(**{**vars(minute), "has_retry_after": True})
        yield Scene("bucket", 20, workers=workers, latency_s=5.0)


def row(scene: Scene, outcome: ScenePlayed) -> str:
    """Return a line of the table."""
    cells = (
        f"{scene.kind} {scene.limit} in {scene.window_s:g} s",
        scene.fields,
        "yes" if scene.has_retry_after else "no",
        f"{scene.latency_s:g} s",
        str(scene.workers),
        f"{outcome.seconds:.1f}",
        f"{outcome.seconds / scene.ideal_s:.2f}",
        f"{outcome.refused} of {outcome.calls} ({100 * outcome.refused / outcome.calls:.1f} %)",
        f"{outcome.exchanges / outcome.seconds / scene.workers:.1f}",
    )
    return f"| {' | '.join(cells)} |"


HEAD = (
    "| provider | fields | Retry-After | reply after | workers | seconds | of the ideal time"
    " | refused | exchanges/s per worker |"
)


async def cpu_us(registry: ModelRegistry) -> float:
    """Return the CPU time of a call to a model that answers at once, in microseconds."""
    asked, best = call(), float("inf")
    await registry.complete("p:m", asked)
    await asyncio.sleep(RAMP_ENDS_S + 0.5)
    for _ in range(9):
        began = time.process_time()
        for _ in range(10_000):
            await registry.complete("p:m", asked)
        best = min(best, time.process_time() - began)
    return best * 100


def exchange_us(redis: Redis, workers: int) -> float:
    """Return the time that Redis takes for an exchange with so many workers, in microseconds."""
    redis.flushall()
    report = PermitReport(wanted=1, caps={"in_flight": 1e6})
    for n in range(workers):
        redis.eval(PERMITS.text, 0, *permit_words("p:m", "p", f"w{n}", report))
    redis.config_resetstat()
    for n in range(1_000):
        again = replace(report, number=n + 1)
        redis.eval(PERMITS.text, 0, *permit_words("p:m", "p", f"w{n % workers}", again))
    return float(redis.info("commandstats")["cmdstat_eval"]["usec_per_call"])


class _Answers:
    async def complete(self, _call: ModelCall) -> ModelReply:
        return REPLY


def main() -> None:
    """Print the table."""
    without = asyncio.run(cpu_us(ModelRegistry({"p": _Answers()})))
    through = asyncio.run(cpu_us(ModelRegistry({"p": _Answers()}, describe=lambda _: ("f", None))))
    print(
        f"CPU of a call without a known limit: {through:.1f} us, {without:.1f} us without limiter"
    )
    with (
        TemporaryDirectory() as directory,
        EmbeddedRedis(Path(directory)) as server,
        Redis.from_url(server.url) as redis,
    ):
        for workers in (10, 100, 500):
            print(
                f"Redis, an exchange with {workers} workers: {exchange_us(redis, workers):.0f} us"
            )
        print()
        print(HEAD, "|---|---|---|---|--:|--:|--:|--:|--:|", sep="\n")
        for scene in scenes():
            redis.flushall()
            print(row(scene, run_skipping(play(scene, redis))), flush=True)


if __name__ == "__main__":
    main()
