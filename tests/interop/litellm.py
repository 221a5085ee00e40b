"""Plays refinements through LiteLLM's proxy: `python -m tests.interop.litellm`, in `make interop`.

The proxy is installed into a virtual environment of its own; where that is not possible it is
skipped, with the reason. Behind it is the scripted model server, or with `--upstream URL` any
other server with OpenAI's API, such as llama.cpp's. Every second refinement is watched with
`?deltas=true`, so that its drafts are streamed through both.
"""

import argparse
import asyncio
import json
import os
import secrets
import subprocess
import sys
import tempfile
import venv
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from pydantic import SecretStr

from app.cli.processes import free_port
from benchmarks.model_replies import improving
from benchmarks.model_server import ScriptedModelServer
from tests.e2e.running_service import RunningService, running_service
from tests.models.calls import RecordingBehaviour
from tests.waiting import TIMEOUT_S

ROOT = Path(__file__).parents[2]
ENVIRONMENT = ROOT / ".venv" / "interop" / "litellm"
REQUIREMENT = "litellm[proxy]==1.106.2"
STRATEGIES: tuple[dict[str, Any], ...] = ({"kind": "iterative"}, {"kind": "best_of_n", "n": 3})
EACH = 10
LOG = "litellm.log"


@dataclass
class Played:
    """What became of the refinements; `pieces` counts the deltas of those that were watched."""

    scored: dict[str, int] = field(default_factory=dict)
    pieces: int = 0
    without_pieces: int = 0
    errors: list[str] = field(default_factory=list)


def install() -> str | None:
    """Install the proxy once; return why it is not possible, or None."""
    marker = ENVIRONMENT / "installed"
    if marker.exists() and marker.read_text() == REQUIREMENT:
        return None
    venv.create(ENVIRONMENT, clear=True, with_pip=True)
    python = str(ENVIRONMENT / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", REQUIREMENT]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        return str((done.stderr.strip().splitlines() or ["pip failed"])[-1])
    marker.write_text(REQUIREMENT)
    return None


@asynccontextmanager
async def proxy(folder: Path, upstream: str, model: str) -> AsyncIterator[tuple[str, str]]:
    """Run the proxy in front of a server; yield its base URL and its key."""
    key, port = f"sk-{secrets.token_hex(16)}", free_port("127.0.0.1")
    process = started(folder, upstream, model, key, port)
    try:
        await _is_alive(process, f"http://127.0.0.1:{port}", folder)
        yield f"http://127.0.0.1:{port}/v1", key
    finally:
        process.terminate()
        process.wait(TIMEOUT_S)


def started(
    folder: Path, upstream: str, model: str, key: str, port: int
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
    command = [str(ENVIRONMENT / "bin" / "litellm"), "--config", str(config)]
    with (folder / LOG).open("wb") as log:
        return subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            env=os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


async def _is_alive(process: subprocess.Popen[bytes], url: str, folder: Path) -> None:
    async with httpx.AsyncClient() as client, asyncio.timeout(TIMEOUT_S):
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


async def play(service: RunningService, played: Played) -> None:
    """Play every strategy `EACH` times, and watch every second refinement."""
    for strategy in STRATEGIES:
        ids = [
            await service.submit(strategy=strategy, max_iterations=3, stop={"max_seconds": 300})
            for _ in range(EACH)
        ]
        pieces = await asyncio.gather(*(deltas(service, it) for it in ids[::2]))
        played.pieces += sum(pieces)
        played.without_pieces += pieces.count(0)
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


async def run(upstream: str | None, model: str) -> int:
    """Play everything; print one line, and return 0 if every refinement has a scored draft."""
    behaviour, played = RecordingBehaviour(improving), Played()
    with tempfile.TemporaryDirectory() as created:
        folder = Path(created)
        async with (
            ScriptedModelServer(behaviour, stream_every_s=0.005) as models,
            proxy(folder, upstream or models.url, model) as (url, key),
            running_service(
                folder,
                openai_base_url=url,
                openai_api_key=SecretStr(key),
                model=f"openai:{model}",
            ) as service,
        ):
            await play(service, played)
    streamed = sum("stream" in it.json for it in behaviour.asked)
    scored = ", ".join(f"{kind} {count} of {EACH}" for kind, count in played.scored.items())
    calls = "" if upstream else f"; {streamed} of {len(behaviour.asked)} calls streamed"
    print(f"litellm: scored: {scored}; {played.pieces} pieces of texts{calls}")
    for error in played.errors:
        print(f"  {error}")
    is_streamed = played.pieces > 0 and (upstream is not None or streamed > 0)
    return 0 if is_streamed and set(played.scored.values()) == {EACH} else 1


def main() -> int:
    """Return 0 if it works, or cannot be installed; the line says which."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--upstream", help="base URL of a server with OpenAI's API")
    parser.add_argument("--model", default="bench", help="name of the model there")
    asked = parser.parse_args()
    if reason := install():
        print(f"litellm: skipped: {reason}")
        return 0
    return asyncio.run(run(asked.upstream, asked.model))


if __name__ == "__main__":
    sys.exit(main())
