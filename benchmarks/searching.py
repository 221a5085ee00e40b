"""Measures a search among very many refinements, and what its signatures take.

    python -m benchmarks.searching [--count 100000]

Some refinements are played; the others are copies with drafts of their own, passages of this
repository's pages.
"""

import argparse
import asyncio
import statistics
import time
from random import Random
from typing import Any

from pydantic_core import to_json
from redis.asyncio import Redis
from ulid import ULID

from app.store import Store, WorkerStore
from app.store.packing import EndedRecord
from app.store.redis import keys
from app.store.searching import signature
from app.store.state import ID_PREFIX
from benchmarks.memory import PAGES, SHAPES, played, stores

WORDS, ROUNDS, AT_ONCE = 300, 5, 500
PLAYED = 40
TENANT = SHAPES[0].tenant


async def filled(redis: Redis, number: int, like: str) -> None:
    """Store refinements with drafts of their own."""
    words = [word for page in PAGES for word in page.read_text().split()]
    summary: dict[Any, Any] = await redis.hgetall(keys.SUMMARY + like)
    drawn = Random(1)
    for first in range(0, number, AT_ONCE):
        async with redis.pipeline(transaction=False) as sent:
            for n in range(first, min(first + AT_ONCE, number)):
                refinement_id = f"{ID_PREFIX}{ULID()}"
                start = drawn.randrange(len(words) - WORDS)
                text = " ".join([*words[start : start + WORDS], f"ticket-{n}."])
                sent.zadd(keys.refinement_list(TENANT), {refinement_id: 0})
                sent.hset(keys.SUMMARY + refinement_id, mapping=summary)
                sent.hset(keys.SIGNATURES + TENANT, refinement_id, signature([refinement_id, text]))
                request = {b"request": to_json({"task": "Improve it.", "draft": text})}
                entry: dict[Any, Any] = {"type": "refinement.completed", "at": 1, "data": "{}"}
                entry["packed"] = EndedRecord((), request, {}).packed()
                sent.xadd(keys.JOURNAL + refinement_id, entry, "9-0")
            await sent.execute()


async def searched(store: Store, query: str) -> tuple[int, float]:
    """Return how many a search finds on its first page, and the median of its milliseconds."""
    took, found = [], 0
    for _ in range(ROUNDS):
        began = time.perf_counter()
        found = len((await store.page(TENANT, query=query)).data)
        took.append((time.perf_counter() - began) * 1000)
    return found, statistics.median(took)


async def share_of_records(redis: Redis, store: Store, worker: WorkerStore) -> tuple[str, float]:
    """Return the id of a played refinement, and the share of its memory that signatures add."""
    ids = await played(SHAPES[0], PLAYED, store, worker)
    while await worker.count_and_pack():
        pass
    records = 0
    for it in ids:
        for prefix in (keys.SUMMARY, keys.JOURNAL):
            records += await redis.memory_usage(prefix + it, samples=0) or 0
    signatures = await redis.memory_usage(keys.SIGNATURES + TENANT, samples=0) or 0
    return ids[0], signatures / records


async def measure(number: int) -> None:
    """Print what searches take."""
    async with stores() as (store, worker, redis):
        like, share = await share_of_records(redis, store, worker)
        print(f"signatures: {share:.1%} of the memory of records of {SHAPES[0].name}")
        await filled(redis, number, like)
        print(f"\n| sought among {number:,} | found on a page | ms |\n|---|--:|--:|")
        for query in ("refinement", f"ticket-{number - 1}.", "ticket-0.", "nowhere-to-be-found"):
            found, took = await searched(store, query)
            print(f"| `{query}` | {found} | {took:.0f} |")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=100_000)
    asyncio.run(measure(parser.parse_args().count))


if __name__ == "__main__":
    main()
