"""The keys that tenants have of their own for the providers of models, encrypted."""

import asyncio
import base64
from collections.abc import Mapping
from datetime import datetime
from typing import cast

from pydantic_core import from_json, to_json
from redis.asyncio import Redis

from app.contract.errors import InvalidRequest, NotFound
from app.store.redis import keys
from app.store.redis.codec import moment
from app.store.redis.committer import Commands
from app.store.redis.connection import refusals
from app.store.sealing import Sealer, about_provider_key

READ_AGAIN_S = 2.0
"""How long a worker goes by what it has read."""

MOST_REMEMBERED = 10_000


class ProviderKeyNotFound(NotFound):
    """The tenant has no key of its own for the provider."""


class ProviderKeyStore:
    """Sets and lists the keys of tenants; none is ever shown. Every method raises Unavailable."""

    def __init__(self, committer: Commands, sealer: Sealer) -> None:
        self._committer = committer
        self._sealer = sealer

    async def put(self, tenant: str, provider: str, key: str) -> datetime:
        """Store a key in place of an earlier one; return when. Raises InvalidRequest.

        Workers use it within `READ_AGAIN_S` seconds.
        """
        try:
            sealed = self._sealer.seal({"key": key}, about_provider_key(tenant, provider))
        except ValueError:
            detail = "this server cannot store keys: HONE_SECRET_KEY is not set"
            raise InvalidRequest(detail) from None
        with refusals():
            seconds, _ = await self._committer.execute("TIME")
            record = {"set_at": seconds * 1000, "key": base64.b64encode(sealed).decode()}
            name = keys.PROVIDER_KEYS + tenant
            await self._committer.execute("HSET", name, provider, to_json(record))
        return moment(seconds * 1000)

    async def remove(self, tenant: str, provider: str) -> None:
        """Delete a key; raise ProviderKeyNotFound."""
        with refusals():
            if not await self._committer.execute("HDEL", keys.PROVIDER_KEYS + tenant, provider):
                raise ProviderKeyNotFound(f"{tenant} has no key of its own for {provider}")

    async def all(self, tenant: str) -> dict[str, datetime]:
        """Return the providers for which a tenant has a key, and when each was set."""
        with refusals():
            stored = await self._committer.execute("HGETALL", keys.PROVIDER_KEYS + tenant)
        return {
            provider.decode(): moment(from_json(stored[provider])["set_at"])
            for provider in sorted(stored)
        }


class TenantKeys:
    """What a worker reads of them, as a copy that is at most `READ_AGAIN_S` seconds old."""

    def __init__(self, client: Redis, sealer: Sealer) -> None:
        self._client = client
        self._sealer = sealer
        self._clock = asyncio.get_running_loop().time
        self._known: dict[str, tuple[float, Mapping[str, str]]] = {}
        self._reading: dict[str, asyncio.Task[Mapping[str, str]]] = {}

    def known(self, tenant: str) -> Mapping[str, str] | None:
        """Return the keys of a tenant by provider; None if they are to be read again."""
        read_at, found = self._known.get(tenant, (float("-inf"), {}))
        return found if self._clock() - read_at <= READ_AGAIN_S else None

    async def read(self, tenant: str) -> Mapping[str, str]:
        """Read the keys of a tenant by provider; raise Unavailable."""
        if tenant not in self._reading:
            self._reading[tenant] = asyncio.create_task(self._read(tenant))
        return await asyncio.shield(self._reading[tenant])

    async def _read(self, tenant: str) -> Mapping[str, str]:
        try:
            with refusals():
                name = keys.PROVIDER_KEYS + tenant
                stored = cast("dict[bytes, bytes]", await self._client.hgetall(name))
                found = {
                    provider.decode(): self._opened(tenant, provider.decode(), record)
                    for provider, record in stored.items()
                }
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            self._known[tenant] = self._clock(), found
            return found
        finally:
            del self._reading[tenant]

    def _opened(self, tenant: str, provider: str, record: bytes) -> str:
        sealed = base64.b64decode(from_json(record)["key"])
        return self._sealer.open(sealed, about_provider_key(tenant, provider))["key"]
