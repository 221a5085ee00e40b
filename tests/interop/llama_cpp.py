"""llama.cpp's server with constrained decoding, and two models with random weights.

Such a model writes any text that the grammar of a reply allows: what a schema does not rule out
happens. At temperature 0 one of them repeats itself without an end, and the other measures nothing.
Every refinement must end with a scored draft nevertheless, and every draft for which a JSON Schema
is given must satisfy it, revisions included.
"""

import asyncio
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from app.cli.processes import free_port
from benchmarks.environments import environment_with
from tests.e2e.running_service import RunningService, running_service
from tests.waiting import TIMEOUT_S

PACKAGES = ("xllamacpp", "gguf")
SERVER = Path(__file__).with_name("llama_server.py")
PER_PLAN = 10
MODELS = {"repeats itself": ("0", "0.02"), "measures nothing": ("4", "0.1")}
"""The seed of the weights of each model, and their standard deviation."""
ROOM = 1_024
"""Tokens of a first reply: what repeats itself soon ends."""
LONGEST_S = 1_800.0
"""Seconds that the refinements of a plan may take on a machine that others use too."""
CRITERIA = [{"name": "clarity"}, {"name": "tone", "description": "Is it kind?"}, {"name": "facts"}]
STRATEGIES: dict[str, Any] = {
    "iterative": {"kind": "iterative"},
    "best_of_n": {"kind": "best_of_n", "n": 3},
}
DOCUMENT = {
    "type": "object",
    "properties": {
        "unit": {"enum": ["days", "weeks"]},
        "count": {"type": "integer", "minimum": 1, "maximum": 90},
        "notes": {"type": "array", "items": {"type": ["string", "null"]}, "maxItems": 2},
    },
    "required": ["unit", "count", "notes"],
    "additionalProperties": False,
}
PLANS: dict[str, dict[str, Any]] = {
    "iterative, JSON drafts": {
        "validators": [{"kind": "json_schema", "schema": DOCUMENT}],
        "threshold": 1,
        "stop": {"max_similarity": 1},
    },
} | {
    f"{name}, {judged}": {"strategy": strategy, **criteria}
    for name, strategy in STRATEGIES.items()
    for judged, criteria in {"default criteria": {}, "3 criteria": {"criteria": CRITERIA}}.items()
}


async def play(folder: Path) -> bool:
    """Play every plan several times at once; print and return whether all have scored drafts."""
    python = await asyncio.to_thread(environment_with, "llama_cpp", *PACKAGES)
    good: list[int] = []
    for name, weights in MODELS.items():
        with tempfile.TemporaryDirectory(dir=folder) as own:
            print(f"a model that {name}: seed {weights[0]}, standard deviation {weights[1]}")
            good += await _played(python, Path(own), weights)
    print(f"llama.cpp: {sum(good)} of {len(good) * PER_PLAN} ended with a scored draft")
    return sum(good) == len(good) * PER_PLAN


async def _played(python: Path, folder: Path, weights: Sequence[str]) -> list[int]:
    """Return how many refinements of each plan ended with a scored draft, with one model."""
    with _served(python, folder, weights) as url:
        await _is_ready(url)
        settings: dict[str, Any] = {
            "openai_base_url": url,
            "model": "openai:tiny",
            "max_output_tokens": ROOM,
        }
        async with running_service(folder, **settings) as service:
            return [await _scored(service, name, plan) for name, plan in PLANS.items()]


async def _scored(service: RunningService, name: str, plan: dict[str, Any]) -> int:
    """Return how many refinements of a plan ended with a scored draft."""
    began = time.monotonic()
    ids = [await service.submit(**plan, max_iterations=3) for _ in range(PER_PLAN)]
    ended = await asyncio.gather(*(service.ended(it, LONGEST_S) for it in ids))
    good = [it for it in ended if it["result"] and it["result"]["score"] is not None]
    good = [it for it in good if await _are_valid(service, it["id"])]
    calls, tokens = (sum(it["usage"][part] for it in ended) for part in ("calls", "output_tokens"))
    seconds = time.monotonic() - began
    print(
        f"{name}: {len(good)} of {len(ended)}; {calls} calls, {tokens} tokens written,"
        f" {seconds:.0f} s",
        flush=True,
    )
    for it in ended:
        if it not in good:
            print(f"  {it['status']}: {it['error']}")
    return len(good)


async def _are_valid(service: RunningService, refinement_id: str) -> bool:
    """Return whether the validators, if there are any, passed every draft."""
    judged = (await service.get(refinement_id, "/iterations"))["data"]
    return all(found["source"] == "critic" for it in judged for found in it["findings"])


@contextmanager
def _served(python: Path, folder: Path, weights: Sequence[str]) -> Iterator[str]:
    """Serve a new model on a free port, and end the server afterwards."""
    port = free_port("127.0.0.1")
    with (folder / "llama.log").open("wb") as log:
        server = subprocess.Popen(
            [str(python), str(SERVER), str(folder / "tiny.gguf"), str(port), *weights],
            stdout=log,
            stderr=log,
        )
        try:
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.kill()
            server.wait()


async def _is_ready(url: str) -> None:
    async with asyncio.timeout(TIMEOUT_S), httpx.AsyncClient(timeout=TIMEOUT_S) as client:
        while True:
            try:
                if (await client.get(f"{url.removesuffix('/v1')}/health")).is_success:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.2)
