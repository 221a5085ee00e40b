"""The records of API keys and tenants, what every API process must know about them, and quotas."""

import asyncio
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, field, fields
from datetime import UTC, datetime
from uuid import uuid4

from app.contract.access import OPERATOR, AuditEntry, AuditPage, Quotas, Scope, TenantUse
from app.contract.errors import Conflict
from app.contract.status import Status
from app.contract.values import value
from app.store.presets import note_erasure
from app.store.redis import keys
from app.store.redis.codec import number_of
from app.store.redis.committer import Commands, key_names, redis_time_ms
from app.store.redis.scripts import COUNT_ACTION, DAY_MS, OPEN_WATCH, PUT_KEYS
from app.store.statistics import unlist

MOST_KEYS = 10_000
MOST_KEYS_OF_TENANT = 1_000
MOST_AUDITED = 10_000  # entries of a tenant; Redis keeps a few more
MINUTE_MS = 60_000
WATCH_MS = 30_000  # how long a stream counts unless that is renewed
DEAD_MS = 90 * 24 * 3_600_000  # how long a key is listed that no longer works


@value(slots=True)
class KeyRecord:
    """What is stored of a key. Times are milliseconds since 1970 by Redis TIME.

    `hash` is keyed; `hashed_with` says by which secret. `replaced_by`: the id of the key that
    replaced it in a rotation; `replaces`: the ids of the keys that it replaced, the newest first.
    `issuer`: of a person, the OpenID provider at which that person signs in; nobody has the key.
    `stored`: the record as it was read, with fields of a later release.
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
    replaces: tuple[str, ...] = ()
    issuer: str = ""
    stored: str = field(default="", compare=False, repr=False)

    @property
    def ends_at(self) -> float:
        """When the key stops working, or has stopped; infinity without an end."""
        ends = [at for at in (self.revoked_at, self.expires_at) if at is not None]
        return min(ends, default=float("inf"))

    @property
    def is_barred(self) -> bool:
        """Whether it is of a person whom an administrator has revoked: it is kept for good."""
        return bool(self.issuer) and self.revoked_at is not None

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
    replaces = tuple(known.pop("replaces", ()))
    return KeyRecord(scopes=scopes, replaces=replaces, **known, stored=text.decode())


@value(slots=True)
class AccessState:
    """`version` changes with every key; `is_closed` stays true once a key was created."""

    version: str
    is_closed: bool
    now_ms: int


def _audit_entry(entry_id: bytes, fields: Mapping[bytes, bytes]) -> AuditEntry:
    known = {name: fields.get(name.encode(), b"").decode() for name in ("by", "action", "about")}
    at = datetime.fromtimestamp(number_of(entry_id) / 1000, UTC)
    return AuditEntry(at=at, count=int(fields.get(b"count", 1)), **known)


def _place(entry: tuple[bytes, object]) -> tuple[int, int]:
    moment, number = entry[0].split(b"-")
    return int(moment), int(number)


def decode_quotas(text: bytes | None) -> Quotas:
    """Return stored quotas; one that only a later release knows does not count."""
    return Quotas() if text is None else Quotas.model_validate_json(text, extra="ignore")


class AccessStore:
    """The records of API keys in Redis. Every method raises redis errors."""

    def __init__(self, committer: Commands) -> None:
        self._committer = committer

    async def state(self) -> AccessState:
        """Return the state now."""
        at_ms, (version, closed) = await asyncio.gather(
            redis_time_ms(self._committer),
            self._committer.execute("HMGET", keys.ACCESS, "version", "closed"),
        )
        return AccessState((version or b"").decode(), closed is not None, at_ms)

    async def random_secret(self) -> bytes:
        """Return the random secret that all processes share; the first call draws it.

        For a service without a secret key: whoever has a copy of Redis has it as well.
        """
        while (secret := await self._committer.execute("HGET", keys.ACCESS, "secret")) is None:
            await self._committer.execute("HSETNX", keys.ACCESS, "secret", secrets.token_hex(32))
        return bytes.fromhex(secret.decode())

    async def forget_random_secret(self) -> bool:
        """Delete the random secret; return whether there was one."""
        return bool(await self._committer.execute("HDEL", keys.ACCESS, "secret"))

    async def get(self, ids: Sequence[str]) -> tuple[KeyRecord | None, ...]:
        """Return the record of each key, None for an unknown one."""
        if not ids:
            return ()
        stored = await self._committer.execute("HMGET", keys.API_KEYS, *ids)
        return tuple(None if key is None else decode_key(key) for key in stored)

    async def all(self) -> tuple[KeyRecord, ...]:
        """Return every record."""
        stored = await self._committer.execute("HGETALL", keys.API_KEYS)
        return tuple(decode_key(key) for key in stored.values())

    async def quotas(self, tenants: Sequence[str]) -> dict[str, Quotas]:
        """Return the quotas of each of these tenants."""
        if not tenants:
            return {}
        stored = await self._committer.execute("HMGET", keys.TENANTS, *tenants)
        return {tenant: decode_quotas(of) for tenant, of in zip(tenants, stored, strict=True)}

    async def set_quotas(self, tenant: str, quotas: Quotas) -> None:
        """Replace the quotas of a tenant; every process goes by them within a second."""
        await self._store_quotas(tenant, quotas)
        await self._committer.execute("HSET", keys.ACCESS, "version", uuid4().hex)

    async def _store_quotas(self, tenant: str, quotas: Quotas) -> None:
        text = quotas.model_dump_json(exclude_none=True)
        await self._committer.execute("HSET", keys.TENANTS, tenant, text)

    async def tenants(self) -> tuple[str, ...]:
        """Return every tenant that has, or had, a key or quotas, and the operator's."""
        stored = await self._committer.execute("HKEYS", keys.TENANTS)
        names = {name.decode() for name in stored} | {key.tenant for key in await self.all()}
        return tuple(sorted(names | {OPERATOR}))

    async def use(self, tenant: str) -> TenantUse:
        """Return what a tenant uses now."""
        now_ms = (await self.state()).now_ms
        counted = (Status.QUEUED, Status.RUNNING, Status.CANCELING)
        spent = keys.spent_on(tenant, now_ms // DAY_MS)
        (tokens, cost_usd), stored, requests, watchers, queued, *held = await asyncio.gather(
            self._committer.execute("HMGET", spent, "tokens", "cost_usd"),
            self._committer.execute("HGET", keys.STORED, tenant),
            self._committer.execute("GET", keys.requests_in(tenant, now_ms // MINUTE_MS)),
            self._committer.execute("ZCOUNT", keys.WATCHERS + tenant, now_ms, "+inf"),
            *(
                self._committer.execute("ZCARD", keys.listed_by_status(tenant, status))
                for status in counted
            ),
        )
        return TenantUse(
            requests=int(requests or 0),
            watchers=watchers,
            queued=queued,
            in_flight=queued + sum(held),
            bytes_stored=int(stored or 0),
            tokens_today=int(tokens or 0),
            cost_usd_today=float(cost_usd or 0),
        )

    async def count_request(self, tenant: str, now_ms: int) -> int:
        """Count a request, and return how many there were in this minute."""
        key = keys.requests_in(tenant, now_ms // MINUTE_MS)
        number, _ = await asyncio.gather(
            self._committer.execute("INCR", key),
            self._committer.execute("PEXPIRE", key, 2 * MINUTE_MS),
        )
        return int(number)

    async def open_watch(self, tenant: str, stream: str, most: int) -> bool:
        """Count an open event stream for a while; return False if there are `most` already."""
        return bool(await self._committer.submit(OPEN_WATCH, tenant, stream, most, WATCH_MS))

    async def renew_watches(self, streams: Mapping[str, str]) -> None:
        """Count open streams, each with its tenant, for another while."""
        until = (await self.state()).now_ms + WATCH_MS
        for stream, tenant in streams.items():
            key = keys.WATCHERS + tenant
            self._committer.execute("ZADD", key, "XX", until, stream)
            await self._committer.execute("PEXPIRE", key, WATCH_MS)

    async def close_watch(self, tenant: str, stream: str) -> None:
        """Count a stream no longer."""
        await self._committer.execute("ZREM", keys.WATCHERS + tenant, stream)

    async def end_session(self, session_id: str, ends_at: int, now_ms: int) -> None:
        """Remember that a session was signed out, until it would have expired."""
        await self._committer.execute("ZREMRANGEBYSCORE", keys.ENDED_SESSIONS, "-inf", now_ms)
        await self._committer.execute("ZADD", keys.ENDED_SESSIONS, ends_at, session_id)
        await self._committer.execute("HSET", keys.ACCESS, "version", uuid4().hex)

    async def ended_sessions(self) -> set[str]:
        """Return the ids of the sessions that were signed out and would not have expired."""
        found = await self._committer.execute("ZRANGE", keys.ENDED_SESSIONS, 0, -1)
        return {session_id.decode() for session_id in found}

    async def forget_keys(self, tenant: str) -> None:
        """Delete every key of a tenant; each stops working within a second."""
        await self._forget([key for key in await self.all() if key.tenant == tenant])
        await self._committer.execute("HSET", keys.ACCESS, "version", uuid4().hex)

    async def forget_tenant(self, tenant: str) -> None:
        """Delete the quotas of a tenant, and what was derived from its refinements."""
        for by_tenant in (keys.TENANTS, keys.STORED, keys.CHANGES):
            await self._committer.execute("HDEL", by_tenant, tenant)
        await self._committer.execute("ZREM", keys.TURNS, tenant)
        await unlist(self._committer, tenant)
        await self._committer.execute("HSET", keys.ACCESS, "version", uuid4().hex)
        for pattern in keys.of_tenant(tenant):
            async for name in key_names(self._committer, pattern):
                await self._committer.execute("UNLINK", name)
        await note_erasure(self._committer)

    async def record(self, tenant: str, by: str, action: str, about: str) -> None:
        """Add an action to the audit log of a tenant."""
        fields = ("by", by, "action", action, "about", about)
        await self._committer.execute(
            "XADD", keys.AUDIT + tenant, "MAXLEN", "~", MOST_AUDITED, "*", *fields
        )

    async def count_action(self, tenant: str, by: str, action: str, about: str, count: int) -> None:
        """Count actions in the one entry of this minute in the audit log of a tenant."""
        await self._committer.submit(COUNT_ACTION, tenant, by, action, about, count, uuid4().hex)

    async def audited(self, tenant: str, before: str | None, limit: int) -> AuditPage:
        """Return actions, the newest first; `before` is the `next_cursor` of the page before."""
        top = "+" if before is None else f"({before}"
        logs = (keys.AUDIT + tenant, keys.COUNTED + tenant)
        both = await asyncio.gather(
            *(
                self._committer.execute("XREVRANGE", log, top, "-", "COUNT", limit + 1)
                for log in logs
            )
        )
        found = sorted((entry for log in both for entry in log), key=_place, reverse=True)
        shown = found[:limit]
        has_more = len(found) > limit
        return AuditPage(
            data=tuple(_audit_entry(*entry) for entry in shown),
            has_more=has_more,
            next_cursor=shown[-1][0].decode() if has_more else None,
        )

    async def require_room(self, tenant: str) -> None:
        """Raise Conflict if a tenant can have no further key.

        Keys that no longer work make room, first those that have not for longest.
        """
        theirs = [key for key in await self.all() if key.tenant == tenant and not key.is_barred]
        if (too_many := len(theirs) + 1 - MOST_KEYS_OF_TENANT) <= 0:
            return
        now_ms = (await self.state()).now_ms
        dead = sorted((key for key in theirs if key.ends_at <= now_ms), key=lambda key: key.ends_at)
        if len(dead) < too_many:
            raise Conflict(
                f"tenant {tenant} has {MOST_KEYS_OF_TENANT} API keys that work: revoke one"
            )
        await self._forget(dead[:too_many])

    async def put(self, *changes: tuple[KeyRecord | None, KeyRecord]) -> bool:
        """Write records in one step, each with what it was before (None: it is new).

        Returns False, and writes nothing, if one of them was changed meanwhile. Raises Conflict if
        there are `MOST_KEYS` keys.
        """
        words = [word for before, after in changes for word in _words(before, after)]
        answer = await self._committer.submit(PUT_KEYS, MOST_KEYS, *words)
        if answer == b"FULL" and await self._forget_dead():
            answer = await self._committer.submit(PUT_KEYS, MOST_KEYS, *words)
        if answer == b"FULL":
            raise Conflict(
                f"all tenants together have {MOST_KEYS} API keys; those that stopped working go"
                " after 90 days"
            )
        return bool(answer == b"OK")

    async def _forget_dead(self) -> bool:
        """Delete keys that have not worked for 90 days; return whether there were any."""
        before = (await self.state()).now_ms - DEAD_MS
        dead = [key for key in await self.all() if key.ends_at < before and not key.is_barred]
        await self._forget(dead)
        return bool(dead)

    async def _forget(self, records: Sequence[KeyRecord]) -> None:
        if ids := [record.id for record in records]:
            await self._committer.execute("HDEL", keys.API_KEYS, *ids)
            await self._committer.execute("HDEL", keys.KEY_USES, *ids)

    async def used(self, uses: Mapping[str, int]) -> None:
        """Record when keys were last used, of those that are not deleted."""
        words = [word for use in uses.items() for word in use]
        await self._committer.execute("HSET", keys.KEY_USES, *words)
        records = await self.get([*uses])
        if gone := [key_id for key_id, key in zip(uses, records, strict=True) if key is None]:
            await self._committer.execute("HDEL", keys.KEY_USES, *gone)

    async def uses(self, ids: Iterable[str]) -> dict[str, int]:
        """Return when each of these keys was last used, without those that never were."""
        wanted = [*ids]
        stored = await self._committer.execute("HMGET", keys.KEY_USES, *wanted) if wanted else []
        return {
            key_id: int(at) for key_id, at in zip(wanted, stored, strict=True) if at is not None
        }


def _words(before: KeyRecord | None, after: KeyRecord) -> tuple[str, str, str]:
    return after.id, before.stored if before else "", after.encode()
