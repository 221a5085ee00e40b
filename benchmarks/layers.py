"""python -m benchmarks.layers: where the worker's part of a model call goes, by layer.

One process plays the benchmark's refinement as a worker does, with a Redis and a model server of
its own, under cProfile with a clock of CPU time. What a library does counts for the layer that
calls it. cProfile makes calls of functions dearer than what is done in them, so that the shares are
approximate; the numbers of calls hardly depend on what else runs. RQ, whose part is for a
refinement and not for a call, is left out.
"""

import argparse
import asyncio
import gc
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from cProfile import Profile
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType
from typing import Any

import uvloop

from app.contract.events import Queued
from app.contract.models import ModelChoice
from app.contract.requests import RefinementRequest
from app.local.embedded import EmbeddedRedis
from app.queue import RefinementQueue
from app.settings import COLLECT_AFTER
from app.store import Store, open_store, open_worker_store
from app.store.state import NewRefinement
from benchmarks.loop import CALLS, request_body
from benchmarks.processes import OwnSettings, ServiceProgram
from workers.engine.pipeline import load_strategies
from workers.model_registry import open_models
from workers.play.executor import TextPublisher
from workers.play.limits import Bulkhead, open_day_quotas
from workers.play.refinements import Refinements

COUNT, FIRST = 100, 10
LATENCY_MS = 100
MODEL = "openai:bench"
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Layer:
    """Modules, what they are called together and what they are for; of paths the longest counts."""

    name: str
    gives: str
    paths: tuple[str, ...]


LAYERS = (
    Layer(
        "journal entries and their encoding",
        "every step and score can be read, watched and replayed",
        (
            *("workers/play/journal.py", "app/store/redis/codec.py", "app/store/state.py"),
            "app/contract/",
        ),
    ),
    Layer(
        "driving steps",
        "replay after a crash; stops, pauses and time limits between any two steps",
        ("workers/play/", "workers/engine/moves.py"),
    ),
    Layer(
        "scores and estimates",
        "the best draft is returned, and it stops when another round is not worth it",
        (
            *("workers/engine/judging.py", "workers/engine/quality.py", "workers/engine/search.py"),
            "app/store/statistics.py",
        ),
    ),
    Layer("strategy and prompts", "the refinement itself", ("workers/engine/",)),
    Layer("HTTP client", "connections, deadlines, retries, limits", ("workers/outbound/",)),
    Layer(
        "Redis connection",
        "appends take effect once, in order, and are fenced",
        ("app/store/",),
    ),
    Layer("wire format", "providers, and what their servers reject", ("workers/models/",)),
    Layer(
        "reading and checking replies",
        "no preamble, remark or half a text becomes a draft",
        (
            *("workers/engine/replies/", "workers/engine/asking.py"),
            *("workers/validators/", "app/contract/drafts.py"),
        ),
    ),
    Layer(
        "limits and routing",
        "rates shared by all workers, breakers, fallbacks, keys and quotas of tenants",
        (
            *("workers/model_registry.py", "workers/models/rate_limiter.py"),
            *("workers/play/limits.py", "app/store/sealing.py"),
        ),
    ),
    Layer(
        "budget, usage and costs",
        "no reply exceeds the budget; cost by call, model and day",
        (
            "app/contract/budget.py",
            *("app/contract/judgement.py", "app/contract/statistics.py", "app/contract/providers/"),
        ),
    ),
    Layer("prompts that are kept", "what a model was told can be read", ("app/store/prompts.py",)),
    Layer("logs, metrics, traces", "observability", ("app/telemetry/",)),
    Layer("claiming and loading", "one worker at a time", ("workers/play/refinements.py",)),
)
LOOP = Layer("event loop", "", ())


@dataclass(frozen=True)
class PlayingProcess:
    """The worker's parts in this process."""

    store: Store
    refinements: Refinements

    async def submitted(self, count: int) -> list[str]:
        """Submit refinements; return their ids."""
        return [await self._submitted() for _ in range(count)]

    async def play(self, ids: Iterable[str]) -> None:
        """Play refinements to their end, all at once."""
        await asyncio.gather(*(self.refinements.refine(f"{it}-1", it) for it in ids))

    async def _submitted(self) -> str:
        request = RefinementRequest.model_validate_json(request_body())
        choice = ModelChoice(model=MODEL)
        models = {"generator": choice, "critic": choice}
        limits = request.limits()
        queued = Queued(
            strategy=request.strategy.kind,
            models=dict.fromkeys(models, MODEL),
            limits=limits,
            request_sha256="0" * 64,
        )
        new = NewRefinement("default", request, "0" * 64, models, limits, queued)
        return (await self.store.create(new, None)).id


@asynccontextmanager
async def playing_process(latency_ms: float = 0.0) -> AsyncIterator[PlayingProcess]:
    """Start Redis and the model server, and connect to them as a worker does."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="hone-bench-")))
        redis = stack.enter_context(EmbeddedRedis(directory))
        command = ("benchmarks.stamped", "--latency-ms", latency_ms)
        model = stack.enter_context(ServiceProgram("model server", *command, log_dir=directory))
        server: dict[str, Any] = {"openai_base_url": f"http://127.0.0.1:{model.heard()['port']}/v1"}
        settings = OwnSettings(redis_url=redis.url, **server)
        queue = RefinementQueue(settings.queue)
        store = await stack.enter_async_context(open_store(settings, queue))
        journals = await stack.enter_async_context(open_worker_store(settings, queue, "layers"))
        registry = await stack.enter_async_context(open_models(settings))
        quotas = open_day_quotas(settings, registry, "layers")
        models = await stack.enter_async_context(quotas)
        texts, bulkhead = TextPublisher(journals.publish_text), Bulkhead(10_000, 20_000)
        yield PlayingProcess(
            store,
            Refinements(journals, models, "layers", texts=texts, bulkhead=bulkhead),
        )


Code = CodeType | str
"""A function as cProfile names it: one in C has no code object."""


@dataclass
class LayerCost:
    """Function calls and CPU seconds of a layer."""

    calls: float = 0.0
    seconds: float = 0.0


def layer_of(code: Code) -> Layer | None:
    """Return the layer of a function of Hone; None for one of a library."""
    if isinstance(code, str) or not code.co_filename.startswith(f"{ROOT}/"):
        return None
    path = code.co_filename.removeprefix(f"{ROOT}/")
    places = ((at, number) for number, layer in enumerate(LAYERS) for at in layer.paths)
    fitting = [(len(at), number) for at, number in places if path.startswith(at)]
    return LAYERS[max(fitting)[1]] if fitting else None


def costs(entries: Iterable[Any]) -> dict[Layer, LayerCost]:
    """Return the cost of each layer from what `Profile.getstats` returns.

    Functions of libraries count for the layers that call them, in proportion to their time there.
    """
    known = list(entries)
    callers: defaultdict[Code, dict[Code, float]] = defaultdict(dict)
    for entry in known:
        for called in entry.calls or ():
            callers[called.code][entry.code] = called.inlinetime
    shares: dict[Code, Mapping[Layer, float]] = {}

    def shares_of(code: Code) -> Mapping[Layer, float]:
        if code not in shares:
            shares[code] = {LOOP: 1.0}  # also for a function that calls itself
            total = sum(callers[code].values())
            if (own := layer_of(code)) is not None:
                shares[code] = {own: 1.0}
            elif total:
                found: defaultdict[Layer, float] = defaultdict(float)
                for caller, seconds in callers[code].items():
                    for layer, share in shares_of(caller).items():
                        found[layer] += share * seconds / total
                shares[code] = found
        return shares[code]

    summed = {layer: LayerCost() for layer in (*LAYERS, LOOP)}
    for entry in known:
        for layer, share in shares_of(entry.code).items():
            summed[layer].calls += share * entry.callcount
            summed[layer].seconds += share * entry.inlinetime
    return summed


async def profiled(count: int) -> dict[Layer, LayerCost]:
    """Play refinements to get ready, then so many under cProfile; return the cost of each layer."""
    load_strategies()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    async with playing_process(LATENCY_MS) as process:
        await process.play(await process.submitted(FIRST))
        ids = await process.submitted(count)
        profile = Profile(time.thread_time_ns, 1e-9)
        with profile:
            await process.play(ids)
        return costs(profile.getstats())


def rendered(found: Mapping[Layer, LayerCost], count: int) -> str:
    """Return a table of the layers, the dearest first."""
    total = sum(it.seconds for it in found.values())
    lines = ["| layer | function calls | share | what for |", "|---|--:|--:|---|"]
    for layer, it in sorted(found.items(), key=lambda pair: -pair[1].seconds):
        cells = (f"{it.calls / count / CALLS:.0f}", f"{it.seconds / total:.0%}", layer.gives)
        lines.append(f"| {' | '.join((layer.name, *cells))} |")
    calls = sum(it.calls for it in found.values()) / count / CALLS
    return "\n".join([*lines, f"| all | {calls:.0f} | 100% | |"])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=COUNT)
    count = parser.parse_args().count
    print(rendered(uvloop.run(profiled(count)), count))


if __name__ == "__main__":
    main()
