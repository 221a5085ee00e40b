"""The secrets that Redis holds encrypted: those of requests, and tenants' keys for providers.

Secrets of a request, a batch or a preset are stored apart from it. After a change of the secret
key, `Resealing` seals everything stored under the newest one, so that the one before it can go.
"""

import asyncio
import base64
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic_core import from_json, to_json

from app.contract.errors import InvalidRequest, NotFound
from app.settings import Settings
from app.store.packing import EndedRecord, packed_entry, repack, unpacked
from app.store.redis import keys
from app.store.redis.codec import moment
from app.store.redis.committer import Commands, Committer, key_names, redis_time_ms
from app.store.redis.connection import refusals
from app.store.redis.scripts import REPLACE_FIELD
from app.store.state import UnreadableSecrets

NONCE_BYTES = 12
PURPOSE = "secrets of requests"

READ_AGAIN_S = 2.0
"""How long a worker goes by the keys of a tenant that it has read."""

MOST_REMEMBERED = 10_000


class Sealer:
    """AES-256-GCM under a key of 32 bytes. What is sealed for one id opens for no other.

    Of several keys the first seals, and all of them open.
    """

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        self._ciphers = [AESGCM(key) for key in keys]
        self.key_id = sha256(b"id of" + keys[0]).hexdigest()[:16] if keys else ""
        """Tells the first key from others, and nothing about it; empty without a key."""

    def seal(self, found: Mapping[str, str], about: str) -> bytes:
        """Encrypt secrets by JSON Pointer; nothing is empty. Raises ValueError without a key."""
        return self.encrypt(to_json(dict(found)), about) if found else b""

    def open(self, sealed: bytes | None, about: str) -> dict[str, str]:
        """Decrypt what was sealed for the same id; raise UnreadableSecrets with another key."""
        if not sealed:
            return {}
        opened: dict[str, str] = from_json(self.decrypt(sealed, about))
        return opened

    def sealed_anew(self, sealed: bytes, about: str) -> bytes | None:
        """Return what an earlier key has sealed under the first one; None if that one has.

        Raises UnreadableSecrets if no key opens it.
        """
        found, number = self._opened(sealed, about)
        return self.encrypt(found, about) if number else None

    def encrypt(self, plain: bytes, about: str) -> bytes:
        """Encrypt under the first key. Raises ValueError without a key."""
        if not self._ciphers:
            raise ValueError("secrets cannot be stored: HONE_SECRET_KEY is not set")
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._ciphers[0].encrypt(nonce, plain, about.encode())

    def decrypt(self, sealed: bytes, about: str) -> bytes:
        """Decrypt what `encrypt` has encrypted for the same; raise UnreadableSecrets."""
        found, _ = self._opened(sealed, about)
        return found

    def _opened(self, sealed: bytes, about: str) -> tuple[bytes, int]:
        """Return the content, and the number of the key that has sealed it, from 0."""
        nonce, text = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        for number, cipher in enumerate(self._ciphers):
            with suppress(InvalidTag):
                return cipher.decrypt(nonce, text, about.encode()), number
        raise UnreadableSecrets(f"{about}, which another HONE_SECRET_KEY has encrypted")


def sealer_of(settings: Settings) -> Sealer:
    """Return what encrypts under the keys of these settings, if they have a secret key."""
    return Sealer(settings.derived_keys(PURPOSE))


NO_SEALER = Sealer()


def about_preset(tenant: str, name: str) -> str:
    """Return what the secrets of a preset are sealed for."""
    return f"preset {tenant}:{name}"


def about_provider_key(tenant: str, provider: str) -> str:
    """Return what a tenant's key for a provider is sealed for."""
    return f"provider key {tenant}:{provider}"


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
            at_ms = await redis_time_ms(self._committer)
            record = {"set_at": at_ms, "key": base64.b64encode(sealed).decode()}
            name = keys.PROVIDER_KEYS + tenant
            await self._committer.execute("HSET", name, provider, to_json(record))
        return moment(at_ms)

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
    """What a worker reads of the keys of tenants: a copy at most `READ_AGAIN_S` seconds old."""

    def __init__(self, committer: Commands, sealer: Sealer) -> None:
        self._committer = committer
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
                stored = await self._committer.execute("HGETALL", name)
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


SECRETS = b"secrets"


class Resealing:
    """Replaces what an earlier key has sealed. May run while the service does, and again.

    What is sealed under the newest key stays. Every method raises redis errors, and
    UnreadableSecrets for what neither key opens.
    """

    def __init__(self, committer: Committer, sealer: Sealer) -> None:
        self._committer = committer
        self._sealer = sealer

    async def seal_all(self) -> Counter[str]:
        """Seal everything anew; return how many records were, by kind."""
        done: Counter[str] = Counter()
        async for name in key_names(self._committer, keys.REQUEST + "*"):
            about = keys.following(name, keys.REQUEST)
            done["requests"] += await self._field(name, SECRETS, about)
        async for name in key_names(self._committer, keys.JOURNAL + "*"):
            done["requests"] += await self._packed(keys.following(name, keys.JOURNAL))
        async for name in key_names(self._committer, keys.BATCH + "*"):
            about = keys.following(name, keys.BATCH)
            done["batches"] += await self._field(name, b"webhook_secrets", about)
        async for name in key_names(self._committer, keys.PRESETS + "*"):
            tenant = keys.following(name, keys.PRESETS)
            for preset, record in (await self._committer.execute("HGETALL", name)).items():
                about = about_preset(tenant, preset.decode())
                done["presets"] += await self._member(name, preset, record, "secrets", about)
        async for name in key_names(self._committer, keys.PROVIDER_KEYS + "*"):
            tenant = keys.following(name, keys.PROVIDER_KEYS)
            for provider, record in (await self._committer.execute("HGETALL", name)).items():
                about = about_provider_key(tenant, provider.decode())
                done["provider keys"] += await self._member(name, provider, record, "key", about)
        return done

    async def _field(self, name: bytes, field: bytes, about: str) -> bool:
        """Seal a field of a hash anew; return whether it had to be."""
        while sealed := await self._committer.execute("HGET", name, field):
            anew = self._sealer.sealed_anew(sealed, about)
            if anew is None:
                return False
            if await self._committer.submit(REPLACE_FIELD, name, field, sealed, anew):
                return True
        return False

    async def _member(
        self, name: bytes, field: bytes, record: bytes, member: str, about: str
    ) -> bool:
        """Seal a member of a JSON object in a hash anew; return whether it had to be.

        One that is replaced meanwhile is sealed under the newest key by whoever replaces it.
        """
        stored = from_json(record)
        sealed = base64.b64decode(stored[member])
        anew = self._sealer.sealed_anew(sealed, about) if sealed else None
        if anew is None:
            return False
        text = to_json({**stored, member: base64.b64encode(anew).decode()})
        return bool(await self._committer.submit(REPLACE_FIELD, name, field, record, text))

    async def _packed(self, refinement_id: str) -> bool:
        """Seal the secrets in a packed record anew; return whether they had to be."""
        while found := await packed_entry(self._committer, refinement_id):
            entry_id, entry = found
            record = await unpacked(packed := entry[b"packed"])
            sealed = record.request.get(SECRETS)
            anew = self._sealer.sealed_anew(sealed, refinement_id) if sealed else None
            if anew is None:
                return False
            request = {**record.request, SECRETS: anew}
            after = {**entry, b"packed": replace(record, request=request).packed()}
            sealed_anew = EndedRecord([(entry_id, after)], {}, {})
            if await repack(self._committer, refinement_id, packed, sealed_anew):
                return True
        return False
