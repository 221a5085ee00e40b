"""Every model by its name: which settings reach which server."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache

from pydantic import SecretStr

from app.contract.editor import EDITOR
from app.contract.judgement import Usage
from app.contract.providers import BY_NAME
from app.settings import Settings
from workers.editor import EditorCannot, answer
from workers.models.anthropic import Anthropic
from workers.models.openai import OpenAI
from workers.models.port import Model, ModelCall, ModelRefused, ModelReply
from workers.models.remote import Remote
from workers.outbound.transport import RetryPolicy, Transport, open_transport

NAMED = "HONE_PROVIDER_{0}_BASE_URL and HONE_PROVIDER_{0}_API_KEY"

EDITOR_THREADS = 1
"""Python runs one thread at a time: more would only take the event loop's turn more often."""


class Editor:
    """The offline editor as a model: answers from the request of a call; its prompt is not read."""

    async def complete(self, call: ModelCall) -> ModelReply:
        """Answer in a thread of its own. Raises `ModelRefused` for what the editor cannot do."""
        loop, usage = asyncio.get_running_loop(), Usage(calls=1)
        try:
            text = await loop.run_in_executor(_editor_threads(), answer, call.prompt_request)
        except EditorCannot as error:
            raise ModelRefused(str(error), usage) from None
        return ModelReply(text=text, model=EDITOR, usage=usage)


class MissingKey:
    """Stands where a provider's own server would refuse every call."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def complete(self, _call: ModelCall) -> ModelReply:
        """Refuse, and say which settings are missing."""
        name = self._name.upper()
        raise ModelRefused(
            f"{self._name} needs a key: set {name}_API_KEY, or point HONE_{name}_BASE_URL at a "
            "server that needs none"
        )


class ModelRegistry:
    """Models by provider; the name of a model is `provider:name`."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        self._models = dict(models)

    def get(self, name: str) -> tuple[Model, str]:
        """Return who serves a model and its name there. Raises `ModelRefused` for nobody."""
        provider, _, rest = name.partition(":")
        model, table = self._models.get(provider), BY_NAME.get(provider)
        if model and (table is None or table.serves(rest)):
            return model, rest
        raise ModelRefused(
            f"nobody here serves {name!r}: there are {', '.join(sorted(self._models))}; "
            f"{NAMED.format(provider.upper())} add a server"
        )

    async def complete(self, name: str, call: ModelCall) -> ModelReply:
        """Have the model of that name answer. Raises `ModelError`."""
        model, rest = self.get(name)
        return await model.complete(replace(call, model=rest))


@asynccontextmanager
async def open_models(settings: Settings, **more: Model) -> AsyncIterator[ModelRegistry]:
    """Keep every model that settings name within reach, on one transport.

    `more` are models by provider, in addition or instead: `scripted=Scripted(...)`.
    """
    retry_policy = RetryPolicy(total_s=settings.model_timeout_s)
    async with open_transport(retry_policy, settings.max_reply_bytes) as transport:
        yield ModelRegistry({"offline": Editor(), **_remote(settings, transport), **more})


def _remote(settings: Settings, transport: Transport) -> dict[str, Model]:
    models: dict[str, Model] = {
        name: Remote(name, OpenAI(server.base_url, _revealed(server.api_key)), transport)
        for name, server in settings.providers.items()
    }
    openai = OpenAI(settings.openai_base_url, _revealed(settings.openai_api_key))
    anthropic = Anthropic(settings.anthropic_base_url, _revealed(settings.anthropic_api_key))
    models["openai"] = Remote("openai", openai, transport)
    models["anthropic"] = Remote("anthropic", anthropic, transport)
    return models | {
        name: MissingKey(name) for name in ("openai", "anthropic") if _lacks_key(settings, name)
    }


def _lacks_key(settings: Settings, name: str) -> bool:
    """True when a provider's own server would be called without a key."""
    url, key = f"{name}_base_url", f"{name}_api_key"
    is_own = getattr(settings, url) == Settings.model_fields[url].default
    return is_own and not _revealed(getattr(settings, key))


def _revealed(key: SecretStr | None) -> str:
    return key.get_secret_value() if key else ""


@cache
def _editor_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(EDITOR_THREADS, thread_name_prefix="editor")
