"""Calls of validators' endpoints, behind the limiter and the breakers that models have.

An endpoint that is away is waited for like a provider: workers share what they know of it, and
refinements that wait for it are parked under its name (docs/adr/0016, 0023).
"""

import hashlib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import field
from typing import Protocol
from urllib.parse import urlsplit

from app.contract.endpoints import Endpoint
from app.contract.values import value
from app.settings import Settings
from app.store import open_permit_exchange
from workers.models.port import ModelWaits, NotServed
from workers.models.rate_limiter import ModelGate, RateLimiter, open_rate_limiter
from workers.outbound.guarded_client import (
    EndpointAway,
    EndpointClient,
    EndpointUnavailable,
    EndpointWaits,
)

PREFIX = "endpoint:"
LONGEST_NAME = 200


def endpoint_wait_name(url: str, tenant: str) -> str:
    """Return the name of a tenant's endpoint in waits: `endpoint:HOST/PATH#TENANT`.

    No tenant's calls, which may have a timeout of a millisecond, hold up those of another one.
    """
    parts = urlsplit(url)
    name = f"{PREFIX}{parts.netloc.lower()}{parts.path}"
    if len(name) > LONGEST_NAME:
        name = f"{name[:LONGEST_NAME]}...{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    return f"{name}#{tenant}"


class PermitSource(Protocol):
    """Grants permits for refinements that wait for a name."""

    async def permits(self, name: str, most: int) -> int: ...


class EndpointLimiter:
    """The gates of endpoints. Without an exchange it goes by what this worker sees.

    `models` grants the permits of models.
    """

    def __init__(
        self, limiter: RateLimiter | None = None, models: PermitSource | None = None
    ) -> None:
        self.limiter = limiter or RateLimiter()
        self._models = models

    async def permits(self, name: str, most: int) -> int:
        """Take up to `most` permits for refinements that wait for an endpoint or a model."""
        if name.startswith(PREFIX):
            return await self.limiter.permits(self.gate(name), most)
        return most if self._models is None else await self._models.permits(name, most)

    def gate(self, name: str) -> ModelGate:
        """Return the gate of an endpoint."""
        return self.limiter.gate(name, "validator")


@asynccontextmanager
async def open_endpoint_limiter(
    settings: Settings, models: PermitSource
) -> AsyncIterator[EndpointLimiter]:
    """Open the limiter of a worker, which shares what it learns with the others."""
    async with (
        open_permit_exchange(settings) as exchange,
        open_rate_limiter(exchange, settings.without_cell0_s) as limiter,
    ):
        yield EndpointLimiter(limiter, models)


@value(slots=True)
class EndpointCall:
    """One call in the line for an endpoint."""

    tenant: str
    has_permit: bool
    progress: int = 0


@value()
class LimitedEndpoints:
    """Posts to the endpoints of one claimed refinement, each when it may be called."""

    endpoints: EndpointClient
    limiter: EndpointLimiter
    tenant: str
    permits: set[str]
    """Names that the claim has permits for; the first call to each uses its permit up."""
    failures: Counter[str] = field(default_factory=Counter)

    async def ready(self, endpoint: Endpoint, tenant: str = "") -> None:
        """Return when a call can be signed."""
        await self.endpoints.ready(endpoint, tenant or self.tenant)

    async def post(self, endpoint: Endpoint, body: bytes, key: str, tenant: str = "") -> bytes:
        """Return the body of a 2xx response.

        Raises `EndpointWaits` if the endpoint is away, and `EndpointUnavailable` for what can never
        work.
        """
        name = endpoint_wait_name(endpoint.url, self.tenant)
        call = EndpointCall(self.tenant, name in self.permits)
        self.permits.discard(name)
        gate, limiter = self.limiter.gate(name), self.limiter.limiter
        try:
            under_way = await limiter.enter(gate, call)
        except ModelWaits as wait:
            raise EndpointWaits(name, wait.reason, wait.wait_s, wait.detail) from None
        try:
            reply = await self.endpoints.post(endpoint, body, key, tenant or self.tenant)
        except EndpointAway as away:
            error = NotServed(away.reason, away.detail, retry_after_s=away.retry_after_s)
            refused = limiter.refused(gate, under_way, error, self.failures[name])
            self.failures[name] += 1
            raise EndpointWaits(name, refused.reason, refused.wait_s, refused.detail) from None
        except EndpointUnavailable:
            gate.answered(under_way)
            raise
        except BaseException:
            gate.end(under_way)
            raise
        gate.answered(under_way)
        return reply
