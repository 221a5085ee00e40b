"""Measures the memory that refinements take in Redis, before and after they are packed.

    python -m benchmarks.memory [--count 50] [--stubs]

With `--stubs` it measures what stays of them once they are archived instead: the stub without
title and metadata, and its entries in the lists of its tenant and of what is due.

Texts are passages of this repository's pages. Each revision replaces a third of a draft. A verdict
has a reason of 25 words for each criterion, two weaknesses and two suggestions of 15 words.
"""

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import chain, count, cycle, islice
from pathlib import Path
from random import random
from tempfile import TemporaryDirectory
from typing import Any

from redis.asyncio import Redis

from app.contract.events import Queued
from app.contract.judgement import Usage
from app.contract.models import ModelChoice
from app.contract.requests import RefinementRequest
from app.local.embedded import EmbeddedRedis
from app.queue import RefinementQueue
from app.store import Store, WorkerStore, open_store, open_worker_store
from app.store.redis import keys
from app.store.state import NewRefinement
from benchmarks.processes import OwnSettings
from workers.engine.prompts import Judge
from workers.models.port import ModelCall, ModelReply
from workers.play.refinements import Refinements

PAGES = sorted((Path(__file__).parents[1] / "docs").rglob("*.md"))
MODEL = ModelChoice(model="openai:bench")
CRITERIA = ("clarity", "tone", "accuracy")
KINDS = {
    "summary": keys.SUMMARY,
    "journal": keys.JOURNAL,
    "request": keys.REQUEST,
    "prompts": keys.PROMPTS,
}


@dataclass(frozen=True)
class Shape:
    """What a row is about: words of a draft and of the context, iterations, and how many times."""

    name: str
    draft_words: int
    context_words: int
    iterations: int
    share: float = 1.0
    tenant: str = "bench"


SHAPES = (
    Shape("300 words, 3 iterations", 300, 0, 3),
    Shape("300 words, 1,500 of context, 3 iterations", 300, 1_500, 3),
    Shape("300 words, 1,500 of context, 10 iterations", 300, 1_500, 10),
    Shape("30,000 words, 3 iterations", 30_000, 0, 3, 0.1),
)


class ReplyingModels:
    """The models: each draft is new by a third, and each verdict has other words."""

    def __init__(self, shape: Shape) -> None:
        words = [word for page in PAGES for word in page.read_text().split()]
        self._words = cycle(words)
        self._shape = shape
        self._draft = self.passage(shape.draft_words).split()
        self._number = count()

    def passage(self, words: int) -> str:
        """Return the next words of the pages."""
        return " ".join(islice(self._words, words))

    async def complete(self, name: str, call: ModelCall) -> ModelReply:
        """Return a verdict, or the next draft."""
        text = self._verdict() if isinstance(call.prompt_request, Judge) else self._next_draft()
        return ModelReply(text, name, Usage(calls=1, input_tokens=900, output_tokens=300))

    async def permits(self, _name: str, most: int) -> int:
        """Allow everything."""
        return most

    def _next_draft(self) -> str:
        third = len(self._draft) // 3
        start = next(self._number) % 3 * third
        self._draft[start : start + third] = self.passage(third).split()
        return " ".join(self._draft)

    def _verdict(self) -> str:
        judged = {it: {"evidence": [], "reason": self.passage(25), "score": 0.5} for it in CRITERIA}
        said = {it: [self.passage(15) for _ in range(2)] for it in ("weaknesses", "suggestions")}
        return json.dumps({"scores": judged, "strengths": [], **said, "findings": []})


def new(shape: Shape, models: ReplyingModels) -> NewRefinement:
    """Return a refinement of a shape to store."""
    context = [{"name": "policy.md", "text": models.passage(shape.context_words)}]
    request = RefinementRequest.model_validate(
        {
            "task": models.passage(30),
            "criteria": [{"name": it, "description": models.passage(12)} for it in CRITERIA],
            "context": context if shape.context_words else [],
            "max_iterations": shape.iterations,
        }
    )
    chosen = dict.fromkeys(("generator", "critic"), MODEL)
    queued = Queued(
        strategy="iterative",
        models={role: it.model for role, it in chosen.items()},
        limits=request.limits(),
        request_sha256="0" * 64,
    )
    return NewRefinement(shape.tenant, request, "0" * 64, chosen, request.limits(), queued)


@asynccontextmanager
async def stores() -> AsyncIterator[tuple[Store, WorkerStore, Redis]]:
    """Open both sides of the store on an empty Redis, with an archive."""
    with (
        TemporaryDirectory() as directory,
        EmbeddedRedis(Path(directory) / "redis") as server,
    ):
        settings = OwnSettings(
            redis_url=server.url,
            redis_timeout_s=60,
            pack_after_s=0,
            archive_url=f"file://{directory}/archive",
            archive_after_s=0,
        )
        queue = RefinementQueue(settings.queue)
        async with (
            open_store(settings, queue) as store,
            open_worker_store(settings, queue, "bench") as worker,
            Redis.from_url(server.url) as redis,
        ):
            yield store, worker, redis


async def bytes_of(redis: Redis, ids: list[str]) -> Mapping[str, float]:
    """Return what the keys of a refinement take, on average."""
    sums: Counter[str] = Counter()
    for kind, prefix in KINDS.items():
        for it in ids:
            sums[kind] += await redis.memory_usage(prefix + it, samples=0) or 0
    return {kind: sums[kind] / len(ids) for kind in KINDS}


async def played(shape: Shape, number: int, store: Store, worker: WorkerStore) -> list[str]:
    """Play refinements of a shape; return their ids."""
    models: Any = ReplyingModels(shape)
    ids = []
    for place in range(number):
        made = await store.create(new(shape, models), None)
        await Refinements(worker, models, f"worker-{place}").refine(f"{made.id}-1", made.id)
        ended = await store.snapshot(shape.tenant, made.id)
        if len(ended.scores) != shape.iterations:
            raise RuntimeError(f"{ended.status}, {ended.stop_reason}: {ended.error}")
        ids.append(made.id)
    return ids


async def measured(shape: Shape, number: int) -> list[Mapping[str, float]]:
    """Return what a refinement takes before and after packing, and the CPU ms of packing it."""
    async with stores() as (store, worker, redis):
        ids = await played(shape, number, store, worker)
        before, began = await bytes_of(redis, ids), time.process_time()
        while await worker.count_and_pack():
            pass
        spent = {"ms": (time.process_time() - began) * 1000 / number}
        return [before, await bytes_of(redis, ids), spent]


async def stub_bytes(shape: Shape, number: int) -> list[int]:
    """Return what stays in Redis of each archived refinement, with its share of lists."""
    async with stores() as (store, worker, redis):
        await redis.config_set("zset-max-listpack-entries", 0)  # as where there are many
        ids = await played(shape, number, store, worker)
        while await worker.count_and_pack():
            pass
        if shape is LARGEST:
            for it in ids:
                await enlarge(redis, it)
        assert worker.transfer
        while await worker.transfer.move_due():
            pass
        of_tenant = keys.refinement_list(shape.tenant)
        expiring = await redis.keys(keys.EXPIRING + "*")
        lists = (of_tenant, keys.listed_by_status(shape.tenant, "succeeded"), *expiring)
        shares = [await redis.memory_usage(name, samples=0) or 0 for name in lists]
        found = []
        for it in ids:
            assert await redis.hdel(
                keys.SUMMARY + it, *(f"excerpt{place or ''}" for place in range(9))
            )
            stub = await redis.memory_usage(keys.SUMMARY + it, samples=0) or 0
            found.append(stub + round(sum(shares) / number))
        return sorted(found)


LARGEST = Shape("the contract's maximum", 300, 0, 3, 1.0, "t" * 63)
"""The longest name of a tenant, and what `enlarge` adds."""


async def enlarge(redis: Redis, refinement_id: str) -> None:
    """Let a record have 50 scores of six digits, and the usage of many long calls."""
    scores = [
        {"iteration": place, "path": f"iterations/{place}", "score": round(random(), 6)}
        for place in range(1, 51)
    ]
    kinds = ("input_tokens", "output_tokens", "cached_tokens", "thinking_tokens")
    tokens = dict.fromkeys(kinds, 98_765_432)
    usage = {"calls": 100, **tokens, "cost_usd": 1234.567891234, "seconds": 86399.123456}
    fields = {
        "scores": json.dumps(scores),
        "best": json.dumps({**scores[-1], "sha256": "0" * 64}),
        "usage": json.dumps(usage),
        "iteration": "50",
    }
    await redis.hset(keys.SUMMARY + refinement_id, items=[*chain(*fields.items())])


def print_stubs(number: int) -> None:
    """Print a table of stubs."""
    print("| bytes each | median | maximum |")
    print("|---|--:|--:|")
    for shape in (*SHAPES[:2], LARGEST):
        found = asyncio.run(stub_bytes(shape, number))
        print(f"| {shape.name} | {found[len(found) // 2]} | {found[-1]} |")
        sys.stdout.flush()


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--stubs", action="store_true")
    arguments = parser.parse_args()
    if arguments.stubs:
        print_stubs(arguments.count)
        return
    print("| kB each | summary | journal | request | prompts | all | packed | of it | CPU ms |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for shape in SHAPES:
        number = max(3, round(arguments.count * shape.share))
        before, after, spent = asyncio.run(measured(shape, number))
        told = [f"{before[kind] / 1000:.1f}" for kind in KINDS]
        total, packed = sum(before.values()), sum(after.values())
        row = (*told, f"{total / 1000:.1f}", f"{packed / 1000:.1f}", f"{packed / total:.2f}")
        print(f"| {shape.name} | {' | '.join(row)} | {spent['ms']:.1f} |")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
