"""Calls models under the tenant's own key for their provider, where it has one."""

from collections.abc import Callable
from typing import Protocol

from app.contract.errors import Unavailable
from app.contract.providers import Provider
from app.contract.values import value
from app.contract.waiting import OWN_KEY_OF, own_key_name
from app.store.provider_keys import TenantKeys
from workers.models.port import Model, ModelCall, ModelReply, ModelWaits
from workers.models.rate_limiter import ModelGate

READ_LATER_S = 5.0
MOST_MODELS = 1_000


class ModelsBehindGates(Protocol):
    """Calls models through gates: see `ModelRegistry`."""

    async def complete(self, name: str, call: ModelCall) -> ModelReply: ...

    async def permits(self, name: str, most: int) -> int: ...

    async def through(self, gate: ModelGate, model: Model, call: ModelCall) -> ModelReply: ...

    async def permits_of(self, gate: ModelGate, most: int) -> int: ...


OpenModel = Callable[[Provider, str], Model]
"""Returns the models of a provider, called with this key."""

OpenGate = Callable[[str, str, Provider, str], ModelGate]
"""Returns the gate of a name for calls of a model, `provider:name`, with a key."""


@value(slots=True)
class _Own:
    model: Model
    gate: ModelGate


class OwnKeys:
    """Models by name. A tenant with a key of its own for a provider never uses the server's.

    Each key has a limiter and a breaker of its own. What waits for one is known as
    `own:TENANT:provider:name`.
    """

    def __init__(
        self,
        models: ModelsBehindGates,
        keys: TenantKeys,
        provider_of: Callable[[str], Provider | None],
        open_model: OpenModel,
        open_gate: OpenGate,
    ) -> None:
        self._models = models
        self._keys = keys
        self._provider_of = provider_of
        self._open_model = open_model
        self._open_gate = open_gate
        self._opened: dict[tuple[str, str], Model] = {}

    async def complete(self, name: str, call: ModelCall) -> ModelReply:
        """Return the reply of a model; raise what `ModelRegistry.complete` raises."""
        try:
            own = await self._own(call.tenant, name)
        except Unavailable:
            detail = f"the keys of {call.tenant} cannot be read now"
            known_as = own_key_name(call.tenant, name)
            raise ModelWaits(known_as, "unreachable", READ_LATER_S, detail) from None
        if own is None:
            return await self._models.complete(name, call)
        named = call.changed(model=name.partition(":")[2])
        return await self._models.through(own.gate, own.model, named)

    async def permits(self, name: str, most: int) -> int:
        """Take up to `most` permits for refinements that wait for this model."""
        if not name.startswith(OWN_KEY_OF):
            return await self._models.permits(name, most)
        tenant, _, model = name.removeprefix(OWN_KEY_OF).partition(":")
        try:
            own = await self._own(tenant, model)
        except Unavailable:
            return 0
        return most if own is None else await self._models.permits_of(own.gate, most)

    async def _own(self, tenant: str, name: str) -> _Own | None:
        """Return the model and its gate if the tenant has a key for it."""
        provider = self._provider_of(name)
        if provider is None or provider.wire is None:
            return None
        key = (await self._keys.of(tenant)).get(provider.name)
        if key is None:
            return None
        if len(self._opened) >= MOST_MODELS:
            self._opened.clear()
        model = self._opened.get((provider.name, key))
        if model is None:
            model = self._opened[provider.name, key] = self._open_model(provider, key)
        return _Own(model, self._open_gate(own_key_name(tenant, name), name, provider, key))
