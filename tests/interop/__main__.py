"""`python -m tests.interop [NAME ...]`: play refinements through the servers and clients of others.

Each is installed into an environment of its own. One that cannot be installed here is skipped with
the reason; a refinement that does not end as it should is an error.
"""

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from benchmarks.environments import CannotInstall
from tests.interop import (
    contract,
    litellm,
    llama_cpp,
    object_stores,
    openai_clients,
    openid,
    training,
)

SERVERS: Mapping[str, Callable[[Path], Awaitable[bool]]] = {
    "llama.cpp": llama_cpp.play,
    "LiteLLM": litellm.play,
    "openai": openai_clients.play,
    "openai-node": openai_clients.play_on_node,
    "LiteLLM in front": openai_clients.play_through_litellm,
    "S3": object_stores.playing(object_stores.moto, "s3"),
    "Google Cloud Storage": object_stores.playing(object_stores.moto, "gs"),
    "Azure": object_stores.playing(object_stores.azurite, "az"),
    "TRL": training.play,
    "oidc-provider": openid.play,
    "openapi-python-client": contract.play,
    "openapi-ts": contract.play_in_typescript,
    "openapi-typescript": contract.compile_types,
    "linters": contract.lint,
}
"""What tries each, in a folder of its own; it returns whether all went well."""


async def _played(names: list[str]) -> bool:
    is_good = True
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            try:
                is_good &= await SERVERS[name](Path(folder))
            except CannotInstall as reason:
                print(f"{name}: skipped: {reason}")
    return is_good


names = sys.argv[1:] or list(SERVERS)
if unknown := [it for it in names if it not in SERVERS]:
    sys.exit(f"unknown: {', '.join(unknown)}; one or more of: {', '.join(SERVERS)}")
sys.exit(not asyncio.run(_played(names)))
