"""The presets of tenants: named defaults for requests, their secrets encrypted."""

import asyncio
import base64
from difflib import get_close_matches
from typing import Any

from pydantic_core import from_json, to_json

from app.contract.errors import (
    Conflict,
    FieldError,
    InvalidRequest,
    NotFound,
    PreconditionFailed,
)
from app.contract.overlays import PartialRequest, Preset, require_possible
from app.contract.requests import DEFAULT_PRESET
from app.contract.validators import ENDPOINTS
from app.store.redis import keys
from app.store.redis.codec import UNKNOWN_FIELDS, moment, reading, with_secrets
from app.store.redis.committer import Commands, redis_time_ms
from app.store.redis.connection import refusals
from app.store.redis.scripts import REPLACE_FIELD
from app.store.sealing import Sealer, about_preset

MOST_PRESETS = 100
"""Of one tenant."""

MOST_BYTES = 64 * 1024
"""Of one preset, as JSON."""

MOST_NAMED = 5
KNOWN_S = 1.0
MOST_REMEMBERED = 10_000


class PresetNotFound(NotFound):
    """The tenant has no such preset."""

    def __init__(self, name: str) -> None:
        super().__init__(f"preset {name} was not found")


class UnknownPreset(InvalidRequest):
    """A request names a preset that its tenant does not have."""

    def __init__(self, name: str, known: list[str]) -> None:
        near = get_close_matches(name, known, MOST_NAMED, 0.4) or sorted(known)[:MOST_NAMED]
        others = f"this tenant has {', '.join(near)}" if near else "this tenant has none"
        if len(near) < len(known):
            others += f" and {len(known) - len(near)} more"
        detail = f"there is no preset {name}: {others}"
        super().__init__(detail, errors=(FieldError(pointer="/preset", detail=detail),))


async def note_erasure(committer: Commands) -> None:
    """Count a deletion, which the append-only file has until it is next rewritten."""
    since = await redis_time_ms(committer)
    await asyncio.gather(
        committer.execute("HSETNX", keys.ERASURES, "since", since),
        committer.execute("HINCRBY", keys.ERASURES, "count", 1),
    )


class PresetStore:
    """The presets of all tenants, one hash for each. Every method raises Unavailable."""

    def __init__(self, committer: Commands, sealer: Sealer) -> None:
        self._defaults: dict[str, tuple[float, bool]] = {}
        self._committer = committer
        self._sealer = sealer

    async def put(self, tenant: str, name: str, request: PartialRequest) -> tuple[Preset, bool]:
        """Store a preset in place of what had its name; return it, and whether it is new.

        Raises Conflict if the tenant has `MOST_PRESETS`, and what `require_storable` raises.
        """
        name_at = keys.PRESETS + tenant, name
        record = self._record(tenant, name, request)
        with refusals():
            record["updated_at"], number, is_known = await asyncio.gather(
                redis_time_ms(self._committer),
                self._committer.execute("HLEN", keys.PRESETS + tenant),
                self._committer.execute("HEXISTS", *name_at),
            )
            if number >= MOST_PRESETS and not is_known:
                raise Conflict(f"there are {MOST_PRESETS} presets: remove some first")
            is_new = await self._committer.execute("HSET", *name_at, to_json(record))
            self._defaults.pop(tenant, None)
            if not is_new:
                await note_erasure(self._committer)
        return self._preset(tenant, name, record), bool(is_new)

    async def replace(self, tenant: str, before: Preset, request: PartialRequest) -> Preset:
        """Store a preset in place of one that was read, if it is still the same.

        Raises PreconditionFailed if it has changed or was removed, and what `put` raises.
        """
        key, name = keys.PRESETS + tenant, before.name
        record = self._record(tenant, name, request)
        with refusals():
            record["updated_at"] = await redis_time_ms(self._committer)
            while stored := await self._committer.execute("HGET", key, name):
                if self._preset(tenant, name, from_json(stored)) != before:
                    break
                changed = (key, name, stored, to_json(record))
                if await self._committer.submit(REPLACE_FIELD, *changed):
                    await note_erasure(self._committer)
                    return self._preset(tenant, name, record)
        raise PreconditionFailed(f"the preset {name} has changed since")

    def require_storable(self, tenant: str, name: str, request: PartialRequest) -> None:
        """Raise InvalidRequest for a preset with which no request is valid, for one that is too
        large, and for secrets without a secret key."""
        self._record(tenant, name, request)

    def _record(self, tenant: str, name: str, request: PartialRequest) -> dict[str, Any]:
        """Return what is stored of a preset; raise as `require_storable` does."""
        require_possible(request.fields())
        stored = request.model_dump_json(by_alias=True)
        if len(stored.encode()) > MOST_BYTES:
            raise InvalidRequest(f"a preset may have at most {MOST_BYTES} bytes")
        sealed = base64.b64encode(self._sealed(tenant, name, request)).decode()
        return {"request": from_json(stored), "secrets": sealed}

    def _sealed(self, tenant: str, name: str, request: PartialRequest) -> bytes:
        secrets, detail = request.secrets(), ENDPOINTS.missing
        try:
            return self._sealer.seal(secrets, about_preset(tenant, name))
        except ValueError:
            errors = tuple(FieldError(pointer=pointer, detail=detail) for pointer in secrets)
            raise InvalidRequest.at(*errors) from None

    async def get(self, tenant: str, name: str) -> Preset:
        """Return a preset; raise PresetNotFound. Its secrets are masked when it is written."""
        with refusals():
            stored = await self._committer.execute("HGET", keys.PRESETS + tenant, name)
            if stored is None:
                raise PresetNotFound(name)
            return self._preset(tenant, name, from_json(stored))

    async def all(self, tenant: str) -> tuple[Preset, ...]:
        """Return the presets of a tenant, by name."""
        with refusals():
            stored = await self._committer.execute("HGETALL", keys.PRESETS + tenant)
            named = ((name.decode(), from_json(stored[name])) for name in sorted(stored))
            return tuple(self._preset(tenant, name, record) for name, record in named)

    async def remove(self, tenant: str, name: str) -> None:
        """Delete a preset; raise PresetNotFound. Requests that named it stay as they are."""
        with refusals():
            if not await self._committer.execute("HDEL", keys.PRESETS + tenant, name):
                raise PresetNotFound(name)
            self._defaults.pop(tenant, None)
            await note_erasure(self._committer)

    async def default_of(self, tenant: str) -> str | None:
        """Return the preset of requests that name none, if there is one, as of a second ago."""
        now = asyncio.get_running_loop().time()
        read_at, found = self._defaults.get(tenant, (float("-inf"), False))
        if now - read_at > KNOWN_S:
            if len(self._defaults) >= MOST_REMEMBERED:
                self._defaults.clear()
            with refusals():
                key = keys.PRESETS + tenant
                found = bool(await self._committer.execute("HEXISTS", key, DEFAULT_PRESET))
            self._defaults[tenant] = now, found
        return DEFAULT_PRESET if found else None

    async def fields(self, tenant: str, name: str) -> dict[str, Any]:
        """Return the fields of a preset as JSON, secrets included.

        The default preset has none if it does not exist; for another one raises UnknownPreset.
        """
        key = keys.PRESETS + tenant
        with refusals():
            stored = await self._committer.execute("HGET", key, name)
            if stored is None and name == DEFAULT_PRESET:  # it may have been removed a moment ago
                return {}
            if stored is None:
                known = await self._committer.execute("HKEYS", key)
                raise UnknownPreset(name, [preset.decode() for preset in known])
            found: dict[str, Any] = from_json(self._opened(tenant, name, from_json(stored)))
            return found

    def _opened(self, tenant: str, name: str, record: dict[str, Any]) -> bytes:
        """Return the JSON of a request with its secrets in their places."""
        sealed = base64.b64decode(record["secrets"])
        secrets = self._sealer.open(sealed, about_preset(tenant, name))
        return with_secrets(to_json(record["request"]), secrets)

    def _preset(self, tenant: str, name: str, record: dict[str, Any]) -> Preset:
        opened = self._opened(tenant, name, record)
        with reading("a preset"):
            request = PartialRequest.model_validate_json(opened, extra=UNKNOWN_FIELDS)
        return Preset(name=name, updated_at=moment(record["updated_at"]), request=request)
