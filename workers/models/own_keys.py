"""The models of tenants that have a key of their own for a provider."""

from collections.abc import Callable

from app.contract.providers import Provider
from app.contract.values import value
from app.contract.waiting import own_key_name
from app.store.provider_keys import TenantKeys
from workers.models.port import Model
from workers.models.rate_limiter import ModelGate

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
