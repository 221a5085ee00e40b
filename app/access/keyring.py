"""API keys: their text, their keyed hash, which alone is stored, and how they are administered."""

import hmac
import re
import secrets
import string
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256

from app.access.people import Person, SignInFailed
from app.contract.access import OPERATOR, ApiKey, IssuedKey, KeyList, KeyRequest, Rotation
from app.contract.errors import FieldError, Forbidden, InvalidRequest, NotFound
from app.settings import Grant, Settings, derived
from app.store import refusals
from app.store.access import AccessStore, KeyRecord

ID_LENGTH = 12
LAST_MS = 253_402_300_799_999  # of the year 9999, the last one that has a `datetime`
SECRET_LENGTH = 43  # of 62 characters: 256 bits
ID_CHARACTERS = string.digits + string.ascii_lowercase
SECRET_CHARACTERS = string.digits + string.ascii_letters

_KEY = re.compile(rb"hone_([0-9a-z]{12})_[0-9A-Za-z]{43}")


def new_key() -> tuple[str, str]:
    """Return a new id, `key_...`, and the key, `hone_..._...`."""
    name = "".join(secrets.choice(ID_CHARACTERS) for _ in range(ID_LENGTH))
    secret = "".join(secrets.choice(SECRET_CHARACTERS) for _ in range(SECRET_LENGTH))
    return f"key_{name}", f"hone_{name}_{secret}"


def id_in(key: bytes) -> str | None:
    """Return the id of a key, or None if the text cannot be a key."""
    found = _KEY.fullmatch(key)
    return f"key_{found[1].decode()}" if found else None


async def secrets_of(settings: Settings, store: AccessStore) -> tuple[bytes, ...]:
    """Return the secrets from which keys are derived; the first is that of what is new.

    They are HONE_SECRET_KEY and HONE_SECRET_KEY_OLD and no others, so that a copy of Redis allows
    nothing; without them a random one in Redis. Raises redis errors.
    """
    return settings.secret_keys or (await store.random_secret(),)


class Hashing:
    """Hashes keys with HMAC-SHA256. Of several secrets the first is for new keys."""

    def __init__(self, server_secrets: Sequence[bytes]) -> None:
        derived_keys = [derived(secret, "API keys") for secret in server_secrets]
        self._keys = {sha256(key).hexdigest()[:8]: key for key in derived_keys}
        self._newest = next(iter(self._keys))

    def hash_of(self, key: bytes) -> tuple[str, str]:
        """Return which secret is used, and the hash (hex)."""
        return self._newest, hmac.digest(self._keys[self._newest], key, "sha256").hex()

    def knows(self, record: KeyRecord) -> bool:
        """Return whether a record was made under one of the secrets, or is a person."""
        return bool(record.issuer) or record.hashed_with in self._keys

    def is_newest(self, record: KeyRecord) -> bool:
        """Return whether a record was made under the first of the secrets, or is a person."""
        return bool(record.issuer) or record.hashed_with == self._newest

    def matches(self, key: bytes, record: KeyRecord | None) -> bool:
        """Return whether the record belongs to the key; the time reveals nothing about the hash."""
        secret = self._keys.get(record.hashed_with if record else self._newest)
        if secret is None:
            return False
        found = hmac.digest(secret, key, "sha256").hex()
        return hmac.compare_digest(found, record.hash if record else found[::-1])


MOST_REPLACED = 100
"""Rotations that a key remembers."""


class KeyNotFound(NotFound):
    """The key is unknown, or belongs to another tenant."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"key {key_id} was not found")


class Keyring:
    """The keys that administrators manage: their tenant's keys, and in `default` all keys.

    Raises Unavailable if Redis is unreachable.
    """

    def __init__(self, store: AccessStore, settings: Settings) -> None:
        self._store = store
        self._settings = settings

    async def create(self, admin: str, request: KeyRequest) -> IssuedKey:
        """Return a new key. `admin` is the tenant of the administrator.

        Raises Forbidden for a key of a tenant that the administrator does not manage.
        """
        tenant = request.tenant or admin
        if admin not in (OPERATOR, tenant):
            raise Forbidden(f"only an administrator of `{OPERATOR}` creates keys of other tenants")
        expires_at = None if request.expires_at is None else _milliseconds(request.expires_at)
        record, key = await self._new(
            tenant=tenant, scopes=request.scopes, name=request.name, expires_at=expires_at
        )
        if expires_at is not None and expires_at <= record.created_at:
            detail = "must be in the future"
            raise InvalidRequest.at(FieldError(pointer="/expires_at", detail=detail))
        with refusals():
            await self._store.require_room(tenant)
            await self._store.put((None, record))
        return _issued(record, key)

    async def admit(self, person: Person, grant: Grant, ends_at: int) -> KeyRecord:
        """Return the key record of a person who has signed in elsewhere; nobody has its text.

        Scopes and name are those of now, until `ends_at`. Raises SignInFailed for somebody whom an
        administrator has revoked.
        """
        key_id = person.key_id(grant.tenant)
        while True:
            with refusals():
                (before,) = await self._store.get([key_id])
            if before is None:
                with refusals():
                    await self._store.require_room(grant.tenant)
                fresh, _ = await self._new(tenant=grant.tenant, scopes=(), name="")
                after = replace(fresh, id=key_id, issuer=person.issuer)
            elif before.is_barred or before.issuer != person.issuer:
                raise SignInFailed(f"An administrator has revoked your access ({key_id}).")
            else:
                after = before
            after = replace(after, scopes=grant.scopes, name=person.name, expires_at=ends_at)
            with refusals():
                if await self._store.put((before, after)):
                    return after

    async def keys(self, admin: str) -> tuple[ApiKey, ...]:
        """Return the keys, the newest first; those that stopped working long ago may be missing."""
        with refusals():
            return await self._shown(await self._managed(admin))

    async def page(self, admin: str, limit: int, cursor: str | None) -> KeyList:
        """Return one page of the keys; `cursor` is the `next_cursor` of the page before."""
        with refusals():
            found = await self._managed(admin)
            rest = [key for key in found if cursor is None or _place(key) > _place_of(cursor)]
            shown = await self._shown(rest[:limit])
        last = rest[limit - 1] if len(rest) > limit else None
        next_cursor = f"{last.created_at}-{last.id}" if last else None
        return KeyList(data=shown, has_more=last is not None, next_cursor=next_cursor)

    async def _managed(self, admin: str) -> list[KeyRecord]:
        found = [record for record in await self._store.all() if admin in (OPERATOR, record.tenant)]
        return sorted(found, key=_place)

    async def made_under_old_secret(self) -> list[ApiKey]:
        """Return the keys of all tenants that work, and stop when the old secret key goes."""
        with refusals():
            hashing = Hashing(await secrets_of(self._settings, self._store))
            now_ms = (await self._store.state()).now_ms
            records = [
                record
                for record in await self._store.all()
                if hashing.knows(record) and not hashing.is_newest(record)
            ]
            return [*await self._shown([record for record in records if now_ms < record.ends_at])]

    async def get(self, admin: str, key_id: str) -> ApiKey:
        """Return one key; raise KeyNotFound."""
        with refusals():
            (shown,) = await self._shown([await self._record(admin, key_id)])
        return shown

    async def rotate(self, admin: str, key_id: str, rotation: Rotation) -> IssuedKey:
        """Return a new key like this one, which goes on working for a while.

        Raises KeyNotFound, and InvalidRequest if the key does not work any more.
        """
        while True:
            with refusals():
                before = await self._record(admin, key_id)
            after, key = await self._new(
                tenant=before.tenant,
                scopes=before.scopes,
                name=before.name,
                expires_at=before.expires_at,
                replaces=(before.id, *before.replaces)[:MOST_REPLACED],
            )
            if before.issuer:
                raise InvalidRequest(f"{key_id} is a person, who signs in at {before.issuer}")
            if before.ends_at <= after.created_at:
                raise InvalidRequest(f"key {key_id} is revoked or has expired: create a new one")
            ends_at = min(before.ends_at, after.created_at + rotation.overlap_s * 1000)
            old = replace(before, expires_at=int(ends_at), replaced_by=after.id)
            with refusals():
                await self._store.require_room(before.tenant)
                if await self._store.put((before, old), (None, after)):
                    return _issued(after, key)

    async def revoke(self, admin: str, key_id: str) -> ApiKey:
        """Make a key stop working, in every API process within a second, and return it.

        Revoking it again changes nothing. Raises KeyNotFound.
        """
        with refusals():
            while True:
                before = await self._record(admin, key_id)
                if before.revoked_at is not None:
                    break
                now_ms = (await self._store.state()).now_ms
                if await self._store.put((before, replace(before, revoked_at=now_ms))):
                    break
        return await self.get(admin, key_id)

    async def _record(self, admin: str, key_id: str) -> KeyRecord:
        (record,) = await self._store.get([key_id])
        if record is None or admin not in (OPERATOR, record.tenant):
            raise KeyNotFound(key_id)
        return record

    async def _new(self, **values: object) -> tuple[KeyRecord, str]:
        with refusals():
            state = await self._store.state()
            secrets = await secrets_of(self._settings, self._store)
        key_id, key = new_key()
        hashed_with, hashed = Hashing(secrets).hash_of(key.encode())
        fixed = {"id": key_id, "hash": hashed, "hashed_with": hashed_with}
        return KeyRecord(**fixed, created_at=state.now_ms, **values), key  # type: ignore[arg-type]

    async def _shown(self, records: Sequence[KeyRecord]) -> tuple[ApiKey, ...]:
        uses = await self._store.uses(record.id for record in records)
        hashing = Hashing(await secrets_of(self._settings, self._store))
        return tuple(
            ApiKey.model_validate(
                _values(record, uses.get(record.id), is_outdated=not hashing.knows(record))
            )
            for record in records
        )


def _place(record: KeyRecord) -> tuple[int, str]:
    """Return the sort key of a list of keys, the newest first."""
    return -record.created_at, record.id


def _place_of(cursor: str) -> tuple[int, str]:
    created_at, _, key_id = cursor.partition("-")
    return -int(created_at), key_id


def _issued(record: KeyRecord, key: str) -> IssuedKey:
    return IssuedKey.model_validate({**_values(record, None, is_outdated=False), "key": key})


def _values(record: KeyRecord, used_at: int | None, *, is_outdated: bool) -> dict[str, object]:
    return {
        "outdated": is_outdated,
        "id": record.id,
        "tenant": record.tenant,
        "scopes": record.scopes,
        "name": record.name,
        "created_at": _time(record.created_at),
        "expires_at": _time(record.expires_at),
        "revoked_at": _time(record.revoked_at),
        "last_used_at": _time(used_at),
        "replaced_by": record.replaced_by,
    }


def _time(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(min(ms, LAST_MS) / 1000, UTC)


def _milliseconds(time: datetime) -> int:
    return round(time.timestamp() * 1000)
