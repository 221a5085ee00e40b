"""Clients that nobody here wrote ask a running service below `/openai/v1`.

They send what they send by default, and no more than the base URL is changed.
"""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.environments import environment_with, node_modules_with
from benchmarks.model_replies import AskedPrompt, ModelServerReply, chat
from tests.e2e.running_service import running_service
from tests.e2e.scripted_models import answering
from tests.interop import litellm

PROGRAM = Path(__file__).with_name("openai_program.py")
PROGRAM_FOR_NODE = PROGRAM.with_suffix(".mjs")
LIBRARIES = ("openai", "langchain-openai", "llm")
LIBRARIES_FOR_NODE = ("openai", "ai", "@ai-sdk/openai", "@ai-sdk/openai-compatible", "zod")


def _writes_json(key: str, asked: AskedPrompt) -> ModelServerReply | None:
    """Write the document that the programs ask for where its schema is in the prompt."""
    is_draft = key.endswith(("/draft", "/revise"))
    return chat('{"days": 14}') if is_draft and b"days" in asked.body else None


@asynccontextmanager
async def _served(folder: Path) -> AsyncIterator[str]:
    """Run a service without keys and a model; yield the base URL for OpenAI's clients."""
    async with running_service(folder, answering(_writes_json)) as service:
        yield f"{str(service.client.base_url).rstrip('/')}/openai/v1"


async def play(folder: Path) -> bool:
    """Ask with openai, LangChain and `llm`; print a line for each, and return whether all went."""
    python = await asyncio.to_thread(environment_with, "openai", *LIBRARIES)
    models = [{"model_id": "hone", "model_name": "hone"}]
    async with _served(folder) as url:
        written = json.dumps([{**model, "api_base": url} for model in models])  # JSON is YAML
        (folder / "extra-openai-models.yaml").write_text(written)
        asked = [str(python.with_name("llm")), "-m", "hone", "Explain refunds."]
        is_good = await ran("openai for Python, LangChain", [str(python), str(PROGRAM), url])
        return await ran("llm", asked, folder, says="Draft number") and is_good


async def play_through_litellm(folder: Path) -> bool:
    """Ask with openai and LangChain through LiteLLM's proxy."""
    python = await asyncio.to_thread(environment_with, "openai", *LIBRARIES)
    proxied = await asyncio.to_thread(environment_with, "litellm", *litellm.PACKAGES)
    async with _served(folder) as url, litellm.proxy(proxied, folder, url, "hone") as (front, key):
        return await ran("LiteLLM", [str(python), str(PROGRAM), front, key])


async def play_on_node(folder: Path) -> bool:
    """Ask with openai for Node and the Vercel AI SDK."""
    modules = await asyncio.to_thread(node_modules_with, "openai-node", *LIBRARIES_FOR_NODE)
    program = modules.parent / PROGRAM_FOR_NODE.name  # modules are looked for from there
    program.write_text(PROGRAM_FOR_NODE.read_text())
    async with _served(folder) as url:
        return await ran("openai for Node, Vercel AI SDK", ["node", str(program), url])


async def ran(
    name: str, program: list[str], home: Path | None = None, says: str = "succeeded"
) -> bool:
    """Run a program; print what it says, and return whether it ended well."""
    ran = await asyncio.to_thread(
        subprocess.run,
        program,
        env={**os.environ, "LLM_USER_PATH": str(home or "")},
        capture_output=True,
        text=True,
        check=False,
    )
    is_good = ran.returncode == 0 and says in ran.stdout
    print(f"{name}: {ran.stdout.strip() if is_good else ran.stdout + ran.stderr}")
    return is_good
