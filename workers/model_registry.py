"""The models by name, and the settings that say which server each one is on."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import cache, lru_cache, partial

from app.contract.editor import EDITOR
from app.contract.errors import Unavailable
from app.contract.judgement import Usage
from app.contract.providers import BY_NAME, PROVIDERS, Provider, added, provider_of
from app.contract.values import value
from app.contract.waiting import OWN_KEY_OF, own_key_name
from app.settings import Settings
from app.store import Rejections, open_permit_exchange, open_rejections, open_tenant_keys
from app.store.sealing import TenantKeys
from workers.children.turns import Turns
from workers.editor import EditorCannot, editor_reply, length_of
from workers.editor.long_texts import LONG, shared_long_texts
from workers.models.port import (
    Model,
    ModelCall,
    ModelError,
    ModelRefused,
    ModelReply,
    ModelWaits,
    NotServed,
    UnknownModel,
)
from workers.models.rate_limiter import MOST_GATES, ModelGate, RateLimiter
from workers.models.remote import Remote, adapter_of
from workers.outbound.transport import RetryPolicy, Transport, open_transport

MAX_REPLY_BYTES = 4 * 1024 * 1024
"""Bytes of one reply of a model at most."""

MOST_MODELS = 1_000

OpenModel = Callable[[Provider, str], Model]
"""Returns the models of a provider, called with this key."""

OpenGate = Callable[[str, str, Provider, str], ModelGate]
"""Returns the gate of a name for calls of a model, `provider:name`, with a key."""


@value(slots=True)
class Route:
    """How a model is called: by the name that its provider knows, through a gate if it has one."""

    model: Model
    name: str
    gate: ModelGate | None


class OwnKeys:
    """Routes by name. A tenant with a key of its own for a provider never uses the server's.

    Each key has a limiter and a breaker of its own. What waits for one is known as
    `own:TENANT:provider:name`.
    """

    def __init__(
        self,
        keys: TenantKeys,
        provider_of: Callable[[str], Provider | None],
        open_model: OpenModel,
        open_gate: OpenGate,
    ) -> None:
        self._keys = keys
        self._provider_of = provider_of
        self._open_model = open_model
        self._open_gate = open_gate
        self._opened: dict[tuple[str, str], Model] = {}

    async def route(self, tenant: str, name: str) -> Route | None:
        """Return the route of a model on a server if the tenant has a key for it.

        Raises `Unavailable`.
        """
        keys = self._keys.known(tenant)
        if keys is None:
            keys = await self._keys.read(tenant)
        if not keys or (provider := self._provider_of(name)) is None:
            return None
        if (key := keys.get(provider.name)) is None:
            return None
        if len(self._opened) >= MOST_MODELS:
            self._opened.clear()
        model = self._opened.get((provider.name, key))
        if model is None:
            model = self._opened[provider.name, key] = self._open_model(provider, key)
        gate = self._open_gate(own_key_name(tenant, name), name, provider, key)
        return Route(model, name.partition(":")[2], gate)


READ_LATER_S = 5.0
"""When a call is made again for which a tenant's keys cannot be read."""

NAMED = "HONE_PROVIDER_{0}_BASE_URL and HONE_PROVIDER_{0}_API_KEY"


class Editor:
    """The offline editor as a model: it answers the request of a call and ignores its prompt.

    Short texts are edited in a thread, long ones in a process of their own. Refinements take turns.
    """

    def __init__(self) -> None:
        self._short, self._long = Turns(), Turns()

    async def complete(self, call: ModelCall) -> ModelReply:
        """Answer in a separate thread. Raises `ModelRefused` for what the editor cannot do."""
        loop, usage, asked = asyncio.get_running_loop(), Usage(calls=1), call.prompt_request
        is_long = length_of(asked) > LONG
        turns, does = (
            (self._long, shared_long_texts().answer) if is_long else (self._short, editor_reply)
        )
        try:
            async with turns.turn(owner=call.key.partition("/")[0]):
                text = await loop.run_in_executor(_editor_thread(is_long=is_long), does, asked)
        except EditorCannot as error:
            raise ModelRefused(str(error)) from None
        return ModelReply(text=text, model=EDITOR, usage=usage)


class MissingKey:
    """Serves no call, because the provider's own server needs an API key that is not set."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    async def complete(self, _call: ModelCall) -> ModelReply:
        """Raise `NotServed` with the settings that are missing."""
        raise NotServed(
            "unauthorized",
            f"{self._provider.name} needs an API key: set {self._provider.key_variable}, or set "
            f"HONE_{self._provider.base_url_setting.upper()} to a server that needs none",
        )


Describe = Callable[[str], tuple[str, dict[str, float] | None] | None]
"""Returns the fingerprint and the caps of a model on a server; None for one of this process."""


class ModelRegistry:
    """Models by provider; the name of a model is `provider:name`.

    Calls of models on a server go through the limiter, under the tenant's own key if it has one.
    """

    def __init__(
        self,
        models: Mapping[str, Model],
        limiter: RateLimiter | None = None,
        describe: Describe = lambda _name: None,
        own_keys: OwnKeys | None = None,
    ) -> None:
        self._models = dict(models)
        self._limiter = limiter or RateLimiter()
        self._describe = describe
        self._own_keys = own_keys

    def get(self, name: str) -> tuple[Model, str]:
        """Return a provider's model and the name there. Raises `UnknownModel`."""
        provider, _, rest = name.partition(":")
        model, table = self._models.get(provider), BY_NAME.get(provider)
        if model and (table is None or table.serves(rest)):
            return model, rest
        raise UnknownModel(
            f"unknown model {name!r}: the providers are {', '.join(sorted(self._models))}; "
            f"set {NAMED.format(provider.upper())} to add one"
        )

    async def complete(self, name: str, call: ModelCall) -> ModelReply:
        """Return the reply of the model of that name.

        It waits a few seconds for a permit if one is needed and expected by then. Raises
        `ModelWaits` if it is not, or if the call was not served now, and `ModelError`.
        """
        route = self._route(name)
        if self._own_keys is not None and route.gate is not None:
            try:
                route = await self._own_keys.route(call.tenant, name) or route
            except Unavailable:
                detail = f"the keys of {call.tenant} cannot be read now"
                known_as = own_key_name(call.tenant, name)
                raise ModelWaits(known_as, "unreachable", READ_LATER_S, detail) from None
        gate, call = route.gate, call.changed(model=route.name)
        if gate is None:
            return await route.model.complete(call)
        under_way = await self._limiter.enter(gate, call)
        try:
            reply = await route.model.complete(call)
        except NotServed as error:
            raise self._limiter.refused(gate, under_way, error, call.tries) from None
        except ModelError:
            gate.answered(under_way)
            raise
        except BaseException:
            gate.end(under_way)
            raise
        gate.answered(under_way, reply)
        return reply

    async def permits(self, name: str, most: int) -> int:
        """Take up to `most` permits for refinements that wait for this model.

        0 while none is free, the breaker is open or the tenant's keys cannot be read; a probe
        counts as one.
        """
        try:
            if name.startswith(OWN_KEY_OF):
                route = await self._own_route(name)
            else:
                route = self._route(name)
        except Unavailable:
            return 0
        except UnknownModel:
            return most  # they fail as soon as they are played
        if route is None or route.gate is None:
            return most
        return await self._limiter.permits(route.gate, most)

    async def _own_route(self, known_as: str) -> Route | None:
        """Return the route with a tenant's own key; None if the key is gone."""
        tenant, _, name = known_as.removeprefix(OWN_KEY_OF).partition(":")
        return await self._own_keys.route(tenant, name) if self._own_keys else None

    def _route(self, name: str) -> Route:
        """Return the route with the server's key. Raises `UnknownModel`."""
        model, rest = self.get(name)
        described = self._describe(name)
        gate = self._limiter.gate(name, *described) if described else None
        return Route(model, rest, gate)


@asynccontextmanager
async def open_models(settings: Settings, **more: Model) -> AsyncIterator[ModelRegistry]:
    """Open every model that the settings name, on one shared transport.

    `more` adds or replaces models by provider: `scripted=Scripted(...)`. A call is one request:
    the caller makes it again where that may help. Permits are those of cell 0.
    """
    retry_policy = RetryPolicy(total_s=settings.model_timeout_s, tries=1)
    cell = settings.in_cell(settings.cell or 0)
    async with (
        open_transport(retry_policy, MAX_REPLY_BYTES) as transport,
        open_permit_exchange(settings) as exchange,
        open_tenant_keys(cell) as tenant_keys,
        open_rejections(cell) as rejections,
    ):
        servers = _Servers(settings, transport, rejections)
        limiter = RateLimiter(
            exchange, grace_s=settings.without_cell0_s, call_s=settings.model_timeout_s
        )
        models = {"offline": Editor(), **servers.models(), **more}
        own_keys = (
            None
            if tenant_keys is None
            else OwnKeys(
                tenant_keys,
                lambda name: provider_of(name, settings.providers),
                servers.model_with_key,
                lambda known_as, name, provider, key: limiter.gate(
                    name, settings.fingerprint_of(provider, key), known_as=known_as
                ),
            )
        )
        describe = lru_cache(MOST_GATES)(partial(_described, settings, frozenset(more)))
        try:
            yield ModelRegistry(models, limiter, describe, own_keys)
        finally:
            await limiter.aclose()


def _described(
    settings: Settings, local: Collection[str], name: str
) -> tuple[str, dict[str, float] | None] | None:
    provider = provider_of(name, settings.providers)
    if provider is None or provider.wire is None or provider.name in local:
        return None
    return settings.fingerprint_of(provider), settings.caps_of(name)


@value()
class _Servers:
    """Opens models on the servers of the settings."""

    settings: Settings
    transport: Transport
    rejections: Callable[[str], Rejections] | None

    def models(self) -> dict[str, Model]:
        """Return the models of every provider with a wire format, those of settings included."""
        providers = (*PROVIDERS, *map(added, self.settings.providers))
        return {provider.name: self._model(provider) for provider in providers if provider.wire}

    def _model(self, provider: Provider) -> Model:
        if self.settings.lacks_key(provider):
            return MissingKey(provider)
        return self.model_with_key(provider, None)

    def model_with_key(self, provider: Provider, key: str | None) -> Model:
        """Return the models of a provider, called with a tenant's own key if there is one."""
        address, own = self.settings.server_of(provider)
        wire = adapter_of(provider.wire)(address, own if key is None else key)
        fingerprint = self.settings.fingerprint_of(provider, key)
        shared = self.rejections and self.rejections(fingerprint)
        return Remote(provider.name, wire, self.transport, shared)


@cache
def _editor_thread(*, is_long: bool) -> ThreadPoolExecutor:
    """Return a thread that edits short texts, or one that waits for the process of the long ones.

    Python runs one thread at a time: more for short texts would only slow down the event loop.
    """
    return ThreadPoolExecutor(1, thread_name_prefix="long-editor" if is_long else "editor")
