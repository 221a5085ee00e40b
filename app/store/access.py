"""The records of API keys, and what every API process must know about them."""

import asyncio
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields

from app.contract.access import Scope
from app.contract.errors import Conflict
from app.store import keys
from app.store.scripts import PUT_KEYS, Committer

MOST_KEYS = 10_000
DEAD_MS = 90 * 24 * 3_600_000  # how long a key is listed that no longer works


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """What is stored of a key. Times are milliseconds since 1970 by Redis TIME.

    `hash` is keyed; `hashed_with` says by which secret. `replaced_by`: the id of the key that a
    rotation made of it. `stored`: the record as it was read, with fields of a later release.
    """

    id: str
    tenant: str
    scopes: tuple[Scope, ...]
    name: str
    hash: str
    hashed_with: str
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None
    replaced_by: str | None = None
    stored: str = field(default="", compare=False, repr=False)

    @property
    def ends_at(self) -> float:
        """When the key stops working, or has stopped; infinity without an end."""
        ends = [at for at in (self.revoked_at, self.expires_at) if at is not None]
        return min(ends, default=float("inf"))

    def encode(self) -> str:
        """Return it as JSON."""
        known = asdict(self)
        later = json.loads(known.pop("stored") or "{}")
        return json.dumps({**later, **known})


_KNOWN = {field.name for field in fields(KeyRecord)} - {"stored"}
_SCOPES = {scope.value for scope in Scope}


def decode_key(text: bytes) -> KeyRecord:
    """Return a stored record; a scope that only a later release knows allows nothing."""
    known = {name: value for name, value in json.loads(text).items() if name in _KNOWN}
    scopes = tuple(Scope(scope) for scope in known.pop("scopes") if scope in _SCOPES)
    return KeyRecord(scopes=scopes, **known, stored=text.decode())


@dataclass(frozen=True, slots=True)
class AccessState:
    """`version` changes with every key; `is_closed` stays true once a key was created.

    `secret` is random, and the same for all processes of the service.
    """

    version: str
    is_closed: bool
    secret: bytes
    now_ms: int


class AccessStore:
    """The records of API keys in Redis. Every method raises redis errors."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer

    async def state(self) -> AccessState:
        """Return the state now; the first call for a new Redis draws the secret."""
        time, stored = await asyncio.gather(
            self._committer.execute("TIME"), self._committer.execute("HGETALL", keys.ACCESS)
        )
        secret = stored.get(b"secret")
        if secret is None:
            drawn = secrets.token_hex(32)
            await self._committer.execute("HSETNX", keys.ACCESS, "secret", drawn)
            secret = await self._committer.execute("HGET", keys.ACCESS, "secret")
        version = stored.get(b"version", b"").decode()
        now_ms = int(time[0]) * 1000 + int(time[1]) // 1000
        return AccessState(version, b"closed" in stored, bytes.fromhex(secret.decode()), now_ms)

    async def get(self, ids: Sequence[str]) -> tuple[KeyRecord | None, ...]:
        """Return the record of each key, None for an unknown one."""
        if not ids:
            return ()
        stored = await self._committer.execute("HMGET", keys.API_KEYS, *ids)
        return tuple(None if it is None else decode_key(it) for it in stored)

    async def all(self) -> tuple[KeyRecord, ...]:
        """Return every record, the newest first."""
        stored = await self._committer.execute("HGETALL", keys.API_KEYS)
        found = (decode_key(it) for it in stored.values())
        return tuple(sorted(found, key=lambda it: (-it.created_at, it.id)))

    async def put(self, *changes: tuple[KeyRecord | None, KeyRecord]) -> bool:
        """Write records in one step, each with what it was before (None: it is new).

        Returns False, and writes nothing, if one of them was changed meanwhile. Raises Conflict if
        there are `MOST_KEYS` keys.
        """
        words = [it for before, after in changes for it in _words(before, after)]
        answer = await self._committer.submit(PUT_KEYS, MOST_KEYS, *words)
        if answer == b"FULL" and await self._forget_dead():
            answer = await self._committer.submit(PUT_KEYS, MOST_KEYS, *words)
        if answer == b"FULL":
            raise Conflict(f"there are {MOST_KEYS} API keys; revoked ones go after 90 days")
        return bool(answer == b"OK")

    async def _forget_dead(self) -> bool:
        """Delete keys that have not worked for 90 days; return whether there were any."""
        before = (await self.state()).now_ms - DEAD_MS
        dead = [it.id for it in await self.all() if it.ends_at < before]
        if dead:
            await self._committer.execute("HDEL", keys.API_KEYS, *dead)
            await self._committer.execute("HDEL", keys.KEY_USES, *dead)
        return bool(dead)

    async def used(self, uses: Mapping[str, int]) -> None:
        """Record when keys were last used."""
        words = [word for use in uses.items() for word in use]
        await self._committer.execute("HSET", keys.KEY_USES, *words)

    async def uses(self, ids: Iterable[str]) -> dict[str, int]:
        """Return when each of these keys was last used, without those that never were."""
        wanted = [*ids]
        stored = await self._committer.execute("HMGET", keys.KEY_USES, *wanted) if wanted else []
        return {it: int(at) for it, at in zip(wanted, stored, strict=True) if at is not None}


def _words(before: KeyRecord | None, after: KeyRecord) -> tuple[str, str, str]:
    return after.id, before.stored if before else "", after.encode()
