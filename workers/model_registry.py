"""The models by name, and the settings that say which server each one is on."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache

from app.contract.editor import EDITOR
from app.contract.judgement import Usage
from app.contract.providers import BY_NAME, PROVIDERS, Provider, added
from app.settings import Settings
from workers.editor import EditorCannot, answer
from workers.models.port import Model, ModelCall, ModelRefused, ModelReply
from workers.models.remote import Remote, adapter_of
from workers.outbound.transport import RetryPolicy, Transport, open_transport

NAMED = "HONE_PROVIDER_{0}_BASE_URL and HONE_PROVIDER_{0}_API_KEY"

EDITOR_THREADS = 1
"""One, because Python runs one thread at a time: more would only slow down the event loop."""


class Editor:
    """The offline editor as a model: it answers the request of a call and ignores its prompt."""

    async def complete(self, call: ModelCall) -> ModelReply:
        """Answer in a separate thread. Raises `ModelRefused` for what the editor cannot do."""
        loop, usage = asyncio.get_running_loop(), Usage(calls=1)
        try:
            text = await loop.run_in_executor(_editor_threads(), answer, call.prompt_request)
        except EditorCannot as error:
            raise ModelRefused(str(error), usage) from None
        return ModelReply(text=text, model=EDITOR, usage=usage)


class MissingKey:
    """Refuses every call to a provider whose own server needs an API key that is not set."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    async def complete(self, _call: ModelCall) -> ModelReply:
        """Raise `ModelRefused` with the settings that are missing."""
        raise ModelRefused(
            f"{self._provider.name} needs an API key: set {self._provider.key_variable}, or set "
            f"HONE_{self._provider.base_url_setting.upper()} to a server that needs none"
        )


class ModelRegistry:
    """Models by provider; the name of a model is `provider:name`."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        self._models = dict(models)

    def get(self, name: str) -> tuple[Model, str]:
        """Return a provider's model and the name there. Raises `ModelRefused` if it is unknown."""
        provider, _, rest = name.partition(":")
        model, table = self._models.get(provider), BY_NAME.get(provider)
        if model and (table is None or table.serves(rest)):
            return model, rest
        raise ModelRefused(
            f"unknown model {name!r}: the providers are {', '.join(sorted(self._models))}; "
            f"set {NAMED.format(provider.upper())} to add one"
        )

    async def complete(self, name: str, call: ModelCall) -> ModelReply:
        """Return the reply of the model of that name. Raises `ModelError`."""
        model, rest = self.get(name)
        return await model.complete(replace(call, model=rest))

    async def permits(self, _name: str, most: int) -> int:
        """Return `most`: nothing limits how many calls a model takes."""
        return most


@asynccontextmanager
async def open_models(settings: Settings, **more: Model) -> AsyncIterator[ModelRegistry]:
    """Open every model that the settings name, on one shared transport.

    `more` adds or replaces models by provider: `scripted=Scripted(...)`.
    """
    retry_policy = RetryPolicy(total_s=settings.model_timeout_s)
    async with open_transport(retry_policy, settings.max_reply_bytes) as transport:
        yield ModelRegistry({"offline": Editor(), **_remote(settings, transport), **more})


def _remote(settings: Settings, transport: Transport) -> dict[str, Model]:
    """Return the models of every provider with a wire format, those added by settings included."""
    providers = (*PROVIDERS, *map(added, settings.providers))
    return {it.name: _model(it, it.wire, settings, transport) for it in providers if it.wire}


def _model(provider: Provider, wire: str, settings: Settings, transport: Transport) -> Model:
    if settings.lacks_key(provider):
        return MissingKey(provider)
    return Remote(provider.name, adapter_of(wire)(*settings.server_of(provider)), transport)


@cache
def _editor_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(EDITOR_THREADS, thread_name_prefix="editor")
