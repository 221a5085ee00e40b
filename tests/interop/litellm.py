"""LiteLLM's proxy in front of the scripted model server.

Every second refinement is watched with `?deltas=true`, so that drafts are streamed through both.
"""

import asyncio
import json
import os
import secrets
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from pydantic import SecretStr

from app.cli.processes import free_port
from benchmarks.environments import environment_with
from benchmarks.model_replies import improving
from benchmarks.model_server import ScriptedModelServer
from tests.e2e.running_service import RunningService, running_service
from tests.models.calls import RecordingBehaviour
from tests.waiting import TIMEOUT_S

PACKAGES = ("litellm[proxy]",)
MODEL = "bench"
STRATEGIES: tuple[dict[str, Any], ...] = ({"kind": "iterative"}, {"kind": "best_of_n", "n": 3})
EACH = 10
LOG = "litellm.log"


@dataclass
class Played:
    """What became of the refinements; `pieces` counts the deltas of those that were watched."""

    scored: dict[str, int] = field(default_factory=dict)
    pieces: int = 0
    errors: list[str] = field(default_factory=list)


@asynccontextmanager
async def proxy(
    python: Path, folder: Path, upstream: str, model: str = MODEL
) -> AsyncIterator[tuple[str, str]]:
    """Run the proxy in front of a server; yield its base URL and its key."""
    key, port = f"sk-{secrets.token_hex(16)}", free_port("127.0.0.1")
    process = started(python, folder, upstream, key, port, model)
    try:
        await _is_alive(process, f"http://127.0.0.1:{port}", folder)
        yield f"http://127.0.0.1:{port}/v1", key
    finally:
        process.terminate()
        process.wait(TIMEOUT_S)


def started(
    python: Path, folder: Path, upstream: str, key: str, port: int, model: str
) -> subprocess.Popen[bytes]:
    """Start the proxy, without its list of prices from the network."""
    served = {"model": f"openai/{model}", "api_base": upstream, "api_key": "none"}
    config = folder / "litellm.yaml"  # JSON is YAML
    config.write_text(
        json.dumps(
            {
                "model_list": [{"model_name": model, "litellm_params": served}],
                "general_settings": {"master_key": key},
            }
        )
    )
    command = [str(python.with_name("litellm")), "--config", str(config)]
    with (folder / LOG).open("wb") as log:
        return subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            env=os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


async def _is_alive(process: subprocess.Popen[bytes], url: str, folder: Path) -> None:
    async with httpx.AsyncClient(timeout=TIMEOUT_S) as client, asyncio.timeout(TIMEOUT_S):
        while True:
            if process.poll() is not None:
                raise RuntimeError(end_of_log(folder))
            try:
                if (await client.get(f"{url}/health/liveliness")).is_success:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.5)


def end_of_log(folder: Path) -> str:
    """Return what the proxy said last."""
    return (folder / LOG).read_text()[-2_000:]


async def _play_all(service: RunningService, played: Played) -> None:
    """Play every strategy `EACH` times, and watch every second refinement."""
    for strategy in STRATEGIES:
        ids = [
            await service.submit(strategy=strategy, max_iterations=3, stop={"max_seconds": 300})
            for _ in range(EACH)
        ]
        pieces = await asyncio.gather(*(deltas(service, it) for it in ids[::2]))
        played.pieces += sum(pieces)
        ended = [await service.ended(it) for it in ids]
        played.scored[strategy["kind"]] = sum(
            it["status"] == "succeeded" and it["result"]["score"] is not None for it in ended
        )
        played.errors += [f"{it['id']}: {it['error']}" for it in ended if it["error"]]


async def deltas(service: RunningService, refinement_id: str) -> int:
    """Watch a refinement to its end; return how many pieces of texts came."""
    url = f"/v1/refinements/{refinement_id}/events"
    async with service.client.stream("GET", url, params={"deltas": "true"}) as response:
        return [line async for line in response.aiter_lines()].count("event: step.delta")


async def play(folder: Path) -> bool:
    """Play everything; print one line, and return whether every refinement has a scored draft."""
    python = await asyncio.to_thread(environment_with, "litellm", *PACKAGES)
    behaviour, played = RecordingBehaviour(improving), Played()
    async with (
        ScriptedModelServer(behaviour, stream_every_s=0.005) as models,
        proxy(python, folder, models.url) as (url, key),
        running_service(
            folder, openai_base_url=url, openai_api_key=SecretStr(key), model=f"openai:{MODEL}"
        ) as service,
    ):
        await _play_all(service, played)
    streamed = sum("stream" in it.json for it in behaviour.asked)
    scored = ", ".join(f"{kind} {count} of {EACH}" for kind, count in played.scored.items())
    calls = f"{streamed} of {len(behaviour.asked)} calls streamed"
    print(f"LiteLLM: scored: {scored}; {calls}, {played.pieces} pieces of texts")
    for error in played.errors:
        print(f"  {error}")
    return played.pieces > 0 and streamed > 0 and set(played.scored.values()) == {EACH}
